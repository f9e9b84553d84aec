#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace titan {

/// The whole file. Throws ValueError with the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

/// Writes to a temporary name beside `path`, syncs, and renames: readers see the old file or the new one.
/// Throws ValueError with the path and the system's reason; the old file then stays whole.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

/// The file that writing to `path` is to replace: what a link points to, which stays a link. ValueError where
/// that is no regular file (a device, a pipe, a folder): a rename onto it would destroy it.
std::filesystem::path replaceable(const std::filesystem::path& path);

/// Flushes a file's or folder's data to disk. Throws ValueError.
void sync_to_disk(const std::filesystem::path& path);

/// Makes the folder and its parents, then proves that a file can be written there. Throws ValueError that
/// names `flag` (the setting that chose the folder), the folder and the system's reason.
void require_writable_folder(const std::filesystem::path& folder, std::string_view flag);

/// `path` made absolute against the current folder, without "." and "..", as Python's os.path.abspath.
std::string absolute(const std::filesystem::path& path);

/// The running program's own file.
std::filesystem::path executable_path();

/// The folder that holds shipped data (tests/assets, docs): the source tree for a built copy, share/titan for
/// an installed one.
std::filesystem::path share_folder();

/// The user's cache folder for titan: $TITAN_CACHE_DIR, else $XDG_CACHE_HOME/titan, else $HOME/.cache/titan,
/// else own_temporary_folder().
std::filesystem::path cache_folder();

/// titan-<uid> in the temporary folder, made where it is missing. ValueError when it is another user's, or
/// others can write it: what lies there is loaded and run.
std::filesystem::path own_temporary_folder();

/// A read-only view of a whole file. The bytes stay valid as long as this lives.
class MappedFile {
 public:
  /// Throws ValueError with the path and the system's reason.
  explicit MappedFile(std::filesystem::path path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace titan
