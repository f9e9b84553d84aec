#include "titan/data/file_reader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "titan/base/error.h"

namespace titan {

FileReader::FileReader(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw ValueError("cannot read {}: {}", path_.string(), std::strerror(errno));
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FileReader& FileReader::operator=(FileReader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileReader::~FileReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

size_t FileReader::read_some(int64_t offset, void* into, size_t size) const {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(descriptor_, static_cast<char*>(into) + done, size - done,
                                static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw ValueError("cannot read {}: {}", path_.string(), std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void FileReader::read(int64_t offset, void* into, size_t size) const {
  if (read_some(offset, into, size) != size)
    throw ValueError("{} is shorter than it was when it was opened; was it changed?", path_.string());
}

bool LineReader::next(std::string_view& line) {
  constexpr size_t kPiece = 1 << 20;
  size_t searched = begin_;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (at_end_ && begin_ < buffer_.size())) {
      const size_t stop = end == std::string::npos ? buffer_.size() : end;
      line = std::string_view(buffer_).substr(begin_, stop - begin_);
      offset_ = buffer_offset_ + static_cast<int64_t>(begin_);
      ++number_;
      begin_ = end == std::string::npos ? stop : stop + 1;
      return true;
    }
    if (at_end_) return false;
    buffer_offset_ += static_cast<int64_t>(begin_);
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    buffer_.resize(searched + kPiece);
    const size_t got =
        file_.read_some(buffer_offset_ + static_cast<int64_t>(searched), buffer_.data() + searched, kPiece);
    buffer_.resize(searched + got);
    at_end_ = got < kPiece;
  }
}

FileLock::FileLock(const std::filesystem::path& path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0)
    throw ValueError("cannot write {}: {}; set TITAN_CACHE_DIR to a folder that can be written",
                     path.string(), std::strerror(errno));
  while (::flock(descriptor_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const std::string reason = std::strerror(errno);
    ::close(descriptor_);
    throw ValueError("cannot lock {}: {}; set TITAN_CACHE_DIR to a folder on a local disk", path.string(),
                     reason);
  }
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace titan
