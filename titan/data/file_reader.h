#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace titan {

/// A file open for reading at any place, without a mapping: what is read does not stay in the process's
/// memory.
class FileReader {
 public:
  /// ValueError with the path and the system's reason.
  explicit FileReader(std::filesystem::path path);
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&& other) noexcept;
  ~FileReader();

  const std::filesystem::path& path() const { return path_; }
  /// Reads exactly `size` bytes from `offset`. ValueError when the file ends before.
  void read(int64_t offset, void* into, size_t size) const;
  /// Reads up to `size` bytes; fewer only at the end of the file.
  size_t read_some(int64_t offset, void* into, size_t size) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Goes through the lines of a file; holds one piece of it, or its longest line.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path) : file_(path) {}

  /// The next line, without its "\n"; false at the end. `line` stays valid until the next call.
  bool next(std::string_view& line);
  /// Where the last line begins, in bytes, and its number, from 1.
  int64_t offset() const { return offset_; }
  int64_t number() const { return number_; }

 private:
  FileReader file_;
  std::string buffer_;
  size_t begin_ = 0;  ///< of the unread part of buffer_
  int64_t buffer_offset_ = 0;
  int64_t offset_ = 0;
  int64_t number_ = 0;
  bool at_end_ = false;
};

/// Holds `path` locked against other processes, and other threads, of this machine. Waits for it.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int descriptor_ = -1;
};

}  // namespace titan
