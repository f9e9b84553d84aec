#include "titan/checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/json.h"

namespace titan {
namespace {

[[noreturn]] void fail_writing(const std::filesystem::path& path, int64_t bytes, int error) {
  std::string room;
  std::error_code ignored;
  const auto space = std::filesystem::space(path.parent_path().empty() ? "." : path.parent_path(), ignored);
  if (error == ENOSPC && !ignored)
    room = format(" (the disk has {} left)", with_commas(static_cast<int64_t>(space.available)));
  throw ValueError("cannot write {}, {} bytes: {}{}", path.string(), with_commas(bytes), std::strerror(error),
                   room);
}

/// Wide elements first, so that each tensor is aligned to its element; otherwise the given order.
std::vector<const TensorSpec*> data_order(const std::vector<TensorSpec>& specs) {
  std::vector<const TensorSpec*> order;
  for (const TensorSpec& spec : specs) order.push_back(&spec);
  std::ranges::stable_sort(order, std::greater{},
                           [](const TensorSpec* spec) { return dtype_bits(spec->dtype); });
  return order;
}

Json header_json(const std::vector<const TensorSpec*>& order,
                 const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  Json& meta = header.append_member("__metadata__", Json::object());
  for (const auto& [key, value] : metadata) meta.append_member(key, value);
  int64_t offset = 0;
  for (const TensorSpec* spec : order) {
    Json entry = Json::object();
    entry.append_member("dtype", dtype_name(spec->dtype));
    Json& shape = entry.append_member("shape", Json::array());
    for (const int64_t size : spec->shape) shape.push_back(size);
    Json& offsets = entry.append_member("data_offsets", Json::array());
    offsets.push_back(offset);
    offset += spec->num_bytes();
    offsets.push_back(offset);
    header.append_member(spec->name, std::move(entry));
  }
  return header;
}

/// Length, JSON and the spaces that align the data to 8 bytes.
std::string header_bytes(const Json& json) {
  std::string text = json.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

/// 0, or the error number.
int write_at(int fd, const std::byte* data, size_t size, int64_t offset) {
  while (size > 0) {
    const ssize_t written = ::pwrite(fd, data, size, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    data += written;
    size -= static_cast<size_t>(written);
    offset += written;
  }
  return 0;
}

}  // namespace

int64_t TensorSpec::num_bytes() const {
  int64_t bits = dtype_bits(dtype);
  for (const int64_t size : shape) bits *= size;
  return bits / 8;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& specs,
                                     std::map<std::string, std::string> metadata)
    : path_(replaceable(path)), temporary_(path_.string() + format(".{}.tmp", ::getpid())) {
  metadata.emplace("format", "pt");
  const auto order = data_order(specs);
  const std::string header = header_bytes(header_json(order, metadata));
  auto offset = static_cast<int64_t>(header.size());
  for (const TensorSpec* spec : order) {
    const bool added = places_.emplace(spec->name, Place{offset, offset + spec->num_bytes()}).second;
    check(added && spec->name != "__metadata__", "tensors of a file have different names");
    offset += spec->num_bytes();
  }
  missing_bytes_ = offset - static_cast<int64_t>(header.size());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_writing(path_, offset, errno);
  int error = ::fallocate(fd_, 0, 0, offset) == 0 ? 0 : errno;
  // Some file systems cannot reserve space; a full disk then shows while writing.
  if (error == EOPNOTSUPP || error == ENOSYS) error = 0;
  if (error == 0) error = write_at(fd_, reinterpret_cast<const std::byte*>(header.data()), header.size(), 0);
  if (error == 0) return;
  // The destructor of an object whose constructor throws does not run.
  ::close(fd_);
  ::unlink(temporary_.c_str());
  fail_writing(path_, offset, error);
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> piece) {
  const auto found = places_.find(std::string(name));
  check(found != places_.end(), "only tensors of the specs are written");
  Place& place = found->second;
  check(static_cast<int64_t>(piece.size()) <= place.end - place.next, "no tensor is longer than its spec");
  const int error = write_at(fd_, piece.data(), piece.size(), place.next);
  if (error != 0) fail_writing(path_, static_cast<int64_t>(piece.size()), error);
  place.next += static_cast<int64_t>(piece.size());
  missing_bytes_ -= static_cast<int64_t>(piece.size());
}

void SafetensorsWriter::finish() {
  for (const auto& [name, place] : places_) {
    if (place.next == place.end) continue;
    throw ValueError("{} is not finished: {} bytes of tensor {} were not written", path_.string(),
                     place.end - place.next, name);
  }
  if (::fsync(fd_) != 0) fail_writing(path_, 0, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_writing(path_, 0, errno);
  ::close(std::exchange(fd_, -1));
  sync_to_disk(path_.has_parent_path() ? path_.parent_path() : ".");
}

}  // namespace titan
