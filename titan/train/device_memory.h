#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace titan {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// Peak memory of one device, in GiB (2^30 bytes) and in percent of its capacity.
struct MemoryStats {
  double max_active_gib = 0, max_active_pct = 0;
  double max_reserved_gib = 0, max_reserved_pct = 0;
  int64_t num_alloc_retries = 0, num_ooms = 0;
  std::string_view label = "memory";  ///< the field of the log lines: "memory" or "NEURON memory"
};

/// A row of the device table: what the banner and the metrics say about the device that trains.
struct DeviceInfo {
  std::string type;  ///< "cpu", "cuda", "neuron"
  std::string name;  ///< "AMD EPYC", "NVIDIA H100 80GB HBM3"
  int64_t capacity_bytes =
      0;  ///< for a CPU: the machine's memory, or the control group's limit where that is less
  int64_t swap_bytes = 0;          ///< what the system can move out of memory
  bool emulated = false;           ///< its figures are computed: what it holds is memory of the machine
  c10::Device device = c10::kCPU;  ///< where its tensors are

  /// "CPU": the type as log lines write it.
  std::string label() const;
};

/// Describes device 0 of `device_type`; ConfigError for a type without a row, and for neuron where the
/// process has not taken it.
DeviceInfo device_info(std::string_view device_type);

/// Peak since reset_peak_memory(). On a CPU active and reserved are both the process's largest resident size
/// since it started.
MemoryStats peak_memory(const DeviceInfo& device);

/// Begins a new peak; a CPU has only one.
void reset_peak_memory(const DeviceInfo& device);

/// "CPU capacity: AMD EPYC with 23.43GiB memory".
std::string capacity_line(const DeviceInfo& device);

}  // namespace titan
