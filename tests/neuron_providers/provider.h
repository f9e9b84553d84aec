#pragma once

#include <cstdint>

#include "titan/base/device_provider.h"

// What the small libraries of this folder share: providers of devices that are wrong in one way each, and one
// that is right but can only be asked what it counts.
namespace titan::tests {

inline constexpr const char* kTorchVersion = "2.13.0";

inline const char* start_nothing(const DeviceStart*) { return nullptr; }
inline void describe_small(DeviceDescription* description) {
  *description = {.name = "neuron (made for tests)",
                  .capacity_bytes = int64_t{3} << 30,
                  .peak_flops = 2e12,
                  .emulated = 1};
}
inline int64_t count_nothing(DeviceStatistic*, int64_t) { return 0; }
inline void reset_nothing() {}
inline void ignore_phase(const char*) {}
inline void ignore_bytes(double) {}
inline void ignore_kernel(const DeviceKernelWork*) {}

/// A provider that would pass every check made before its start.
inline DeviceProvider provider_with(const char* (*start)(const DeviceStart*)) {
  return {.abi = kDeviceProviderAbi,
          .torch_version = kTorchVersion,
          .device_type = "neuron",
          .start = start,
          .describe = describe_small,
          .statistics = count_nothing,
          .reset_peak_memory = reset_nothing,
          .set_phase = ignore_phase,
          .count_link_bytes = ignore_bytes,
          .count_kernel = ignore_kernel};
}

}  // namespace titan::tests

extern "C" const titan::DeviceProvider* titan_device_provider();
