#include "titan/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "titan/base/env.h"
#include "titan/base/error.h"

namespace titan {

namespace fs = std::filesystem;

namespace {

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, mode_t mode = 0644)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(std::string_view action, const fs::path& path, int error = errno) {
  throw ValueError("cannot {} {}: {}", action, path.string(), std::strerror(error));
}

void write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

std::string read_file(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  if (!file.ok()) fail("read", path);
  std::string content;
  struct stat info{};
  if (::fstat(file.get(), &info) == 0 && S_ISDIR(info.st_mode)) fail("read", path, EISDIR);
  content.reserve(static_cast<size_t>(info.st_size));
  char block[1 << 16];
  while (true) {
    const ssize_t size = ::read(file.get(), block, sizeof block);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail("read", path);
    if (size == 0) return content;
    content.append(block, static_cast<size_t>(size));
  }
}

void sync_to_disk(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  if (!file.ok()) fail("open", path);
  // Some file systems cannot sync a folder and answer EINVAL; there is nothing more to do for them.
  if (::fsync(file.get()) != 0 && errno != EINVAL) fail("write", path);
}

fs::path replaceable(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    if (links == kMostLinks) throw ValueError("cannot write {}: too many links", path.string());
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  const fs::file_status status = fs::status(target, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw ValueError("cannot write {}: it is there already and no regular file", path.string());
  }
  // Through /dev/stdout the file that the shell has opened would be replaced under its hands.
  const std::string name = titan::absolute(path);
  if ((name.starts_with("/dev/") && !name.starts_with("/dev/shm/")) || name.starts_with("/proc/")) {
    throw ValueError("cannot write {}: that is a device; give the name of a file", path.string());
  }
  return target;
}

void write_file_atomic(const fs::path& given, std::string_view bytes) {
  const fs::path path = replaceable(given);
  const fs::path temporary = path.string() + format(".{}.tmp", ::getpid());
  try {
    {
      const Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
      if (!file.ok()) fail("write", path);
      write_all(file.get(), bytes, path);
      if (::fsync(file.get()) != 0) fail("write", path);
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("write", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_to_disk(path.has_parent_path() ? path.parent_path() : ".");
}

void require_writable_folder(const fs::path& folder, std::string_view flag) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw ValueError("{}: cannot make the folder {}: {}", flag, folder.string(), error.message());
  const fs::path probe = folder / format(".titan-{}", ::getpid());
  {
    const Descriptor file(probe, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.ok()) {
      throw ValueError("{}: cannot write into {}: {}; choose another folder", flag, folder.string(),
                       std::strerror(errno));
    }
  }
  ::unlink(probe.c_str());
}

std::string absolute(const fs::path& path) {
  std::string text = fs::absolute(path).lexically_normal().string();
  if (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

fs::path executable_path() {
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw ValueError("cannot find this program's own path: {}", error.message());
  return path;
}

fs::path share_folder() {
  if (const auto given = env("TITAN_SHARE_DIR")) return *given;
  const fs::path prefix = executable_path().parent_path().parent_path();
  if (fs::exists(prefix / "share" / "titan")) return prefix / "share" / "titan";
#ifdef TITAN_SOURCE_DIR
  return TITAN_SOURCE_DIR;
#else
  return prefix;
#endif
}

fs::path cache_folder() {
  if (const auto given = env("TITAN_CACHE_DIR")) return *given;
  if (const auto base = env("XDG_CACHE_HOME")) return fs::path(*base) / "titan";
  if (const auto home = env("HOME")) return fs::path(*home) / ".cache" / "titan";
  return own_temporary_folder();
}

fs::path own_temporary_folder() {
  const fs::path folder = fs::temp_directory_path() / format("titan-{}", ::getuid());
  ::mkdir(folder.c_str(), 0700);
  struct stat info{};
  const bool is_ours = ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                       info.st_uid == ::getuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (is_ours) return folder;
  throw ValueError(
      "{} is not this user's own folder, so nothing is kept there: set TITAN_CACHE_DIR to a folder of yours",
      folder.string());
}

MappedFile::MappedFile(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path_, ignored);
  // Opening a pipe would wait for a writer that never comes.
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
    throw ValueError("cannot read {}: it is no regular file", path_.string());
  }
  const Descriptor file(path_, O_RDONLY);
  if (!file.ok()) fail("read", path_);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) fail("read", path_);
  if (S_ISDIR(info.st_mode)) fail("read", path_, EISDIR);
  if (info.st_size == 0) return;
  const auto size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail("map", path_);
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace titan
