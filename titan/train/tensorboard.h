#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace titan {

/// One named number, as TensorBoard and the JSON-lines file show it.
using Scalar = std::pair<std::string, double>;

/// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) of `bytes`.
uint32_t crc32c(std::string_view bytes);

/// The rotated and offset checksum of a TFRecord: ((crc >> 15) | (crc << 17)) + 0xa282ead8.
uint32_t masked_crc32c(std::string_view bytes);

/// Frames `payload` as a TFRecord: length (uint64), its masked checksum, payload, its masked checksum; little
/// endian.
std::string tf_record(std::string_view payload);

/// Serialised `tensorflow.Event` of a file's first record: wall time in seconds and `file_version`.
std::string version_event(double wall_time);

/// Serialised `tensorflow.Event` with one `Summary.Value{tag, simple_value}` for each scalar.
std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars);

/// Appends scalars to one TensorBoard event file, flushed after each call so that a crash loses nothing
/// logged.
class EventFileWriter {
 public:
  /// Creates `folder` and in it `events.out.tfevents.<seconds>.<host>.<pid>.0`; ValueError when it cannot be
  /// written.
  explicit EventFileWriter(const std::filesystem::path& folder);

  /// Adds one event at `step`. A failed write (disk full) warns once and training goes on.
  void add_scalars(int64_t step, std::span<const Scalar> scalars);

  const std::filesystem::path& path() const { return path_; }

 private:
  void append(std::string_view payload);

  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace titan
