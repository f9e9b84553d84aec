#include "titan/train/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "titan/base/clock.h"
#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/base/strings.h"

namespace titan {
namespace {

// The records are written as the machine stores numbers; TFRecord and protobuf both ask for little endian.
static_assert(std::endian::native == std::endian::little);

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}();

// Protobuf wire types and the field numbers of tensorflow.Event, Summary and Summary.Value.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5;
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimpleValue = 2;

template <class T>
void put_raw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_tag(std::string& out, uint32_t field, WireType type) { put_varint(out, field << 3 | type); }

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

std::string event_at(double wall_time) {
  std::string event;
  put_tag(event, kEventWallTime, kFixed64);
  put_raw(event, wall_time);
  return event;
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) crc = kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF] ^ (crc >> 8);
  return crc ^ 0xFFFFFFFFu;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

std::string tf_record(std::string_view payload) {
  std::string record;
  put_raw(record, static_cast<uint64_t>(payload.size()));
  put_raw(record, masked_crc32c(record));
  record.append(payload);
  put_raw(record, masked_crc32c(payload));
  return record;
}

std::string version_event(double wall_time) {
  std::string event = event_at(wall_time);
  put_bytes(event, kEventFileVersion, "brain.Event:2");
  return event;
}

std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, kValueTag, tag);
    put_tag(value, kValueSimpleValue, kFixed32);
    put_raw(value, static_cast<float>(number));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string event = event_at(wall_time);
  put_tag(event, kEventStep, kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, kEventSummary, summary);
  return event;
}

EventFileWriter::EventFileWriter(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const double now = wall_time();
  path_ = folder / format("events.out.tfevents.{}.{}.{}.0", static_cast<int64_t>(now), host_name(), getpid());
  if (!error) out_.open(path_, std::ios::binary | std::ios::app);
  if (error || !out_) {
    throw ValueError(
        "TensorBoard folder {} cannot be written ({}); choose another with --dump_folder or "
        "--metrics.save_tb_folder",
        folder.string(), error ? error.message() : std::strerror(errno));
  }
  append(version_event(now));
}

void EventFileWriter::add_scalars(int64_t step, std::span<const Scalar> scalars) {
  append(scalars_event(wall_time(), step, scalars));
}

void EventFileWriter::append(std::string_view payload) {
  const std::string record = tf_record(payload);
  out_.write(record.data(), static_cast<std::streamsize>(record.size()));
  out_.flush();
  if (!out_) {
    warn_once(format("{}: cannot be written any more (disk full?); later metrics are missing from it",
                     path_.string()));
  }
}

}  // namespace titan
