#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "titan/base/device_provider.h"

namespace titan {

/// A device that a provider library has brought to this process (titan/base/device_provider.h).
struct ProvidedDevice {
  c10::Device device;          ///< index 0: a process sees one
  std::string name;            ///< for the banner
  int64_t capacity_bytes = 0;  ///< of its memory
  double peak_flops = 0;       ///< dense bfloat16; 0: not known
  bool emulated = false;
};

/// A number that the device counts, by its name.
struct DeviceCount {
  std::string name;
  double value = 0;
};

/// The provider that TITAN_NEURON_PROVIDER names ("emulator" or the path of a library), or nothing.
std::optional<std::string> named_provider();

/// Takes the `neuron` device for this process from `provider` and registers it with torch, once a process: a
/// second call returns what the first one took. ConfigError when the library is missing, is no provider, is
/// of another ABI or torch, or registers something else, and for what the provider refuses about the
/// environment; ValueError for what else it refuses.
const ProvidedDevice& take_neuron_device(const std::string& provider, int64_t rank, int64_t local_rank,
                                         int64_t local_world_size);

/// The device this process has taken, or null.
const ProvidedDevice* taken_device();

// Of the device this process has taken; without one they do nothing and return nothing.

/// Everything the device counts: memory under torch's flat keys, compilations, simulated time.
std::vector<DeviceCount> device_counts();
/// One of them; 0 where the device does not count it.
double device_count(std::string_view name);
void reset_peak_device_memory();
/// Says what the process does from now on; the text lives for ever.
void set_device_phase(const char* phase);
void count_device_link_bytes(double bytes);
void count_device_kernel(const DeviceKernelWork& work);

}  // namespace titan
