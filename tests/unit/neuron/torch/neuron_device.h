#pragma once

#include <ATen/core/Tensor.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "titan/ops/device.h"

namespace titan {

/// HBM of the device that these tests use.
inline constexpr int64_t kTestHbmBytes = int64_t{1} << 30;

/// The emulated device, a core of a machine of this process alone.
inline at::Device neuron() {
  static const at::Device device = [] {
    const auto folder = std::filesystem::temp_directory_path() / ("unit_neuron." + std::to_string(getpid()));
    setenv("TITAN_NEURON_STATE_DIR", (folder / "state").c_str(), 1);
    setenv("TORCH_NEURONX_NEFF_CACHE_DIR", (folder / "cache").c_str(), 1);
    setenv("TITAN_NEURON_HBM_GIB", "1", 1);
    static const struct Remove {
      std::filesystem::path folder;
      ~Remove() { std::filesystem::remove_all(folder); }
    } remove{folder};
    return take_neuron_device("emulator", 0, 0, 1).device;
  }();
  return device;
}

/// Bytes that the device says are in use.
inline int64_t allocated_bytes() { return static_cast<int64_t>(device_count("allocated_bytes.all.current")); }

/// How many pieces of memory they are in.
inline int64_t allocated_pieces() { return static_cast<int64_t>(device_count("allocation.all.current")); }

inline at::TensorOptions on_device(at::ScalarType dtype) { return at::TensorOptions(neuron()).dtype(dtype); }

inline int64_t compilations() { return static_cast<int64_t>(device_count("total_compilations")); }

}  // namespace titan
