#pragma once

// The contract between titan and a library that brings torch a device of its own (PrivateUse1): plain C, so
// that the library may be built by another compiler. docs/neuron.md says how such a library is named.

#include <cstdint>

namespace titan {

/// Raised whenever a struct below changes.
inline constexpr uint32_t kDeviceProviderAbi = 2;

/// The function that the library exports, `const titan::DeviceProvider* titan_device_provider()`.
inline constexpr const char* kDeviceProviderSymbol = "titan_device_provider";

extern "C" {

/// The place in the job of the process that wants the device.
struct DeviceStart {
  int64_t rank, local_rank, local_world_size;
};

/// What the device is. Texts live as long as the library.
struct DeviceDescription {
  const char* name;        ///< for the banner: "neuron (emulated trn2 core 3, LNC 2)"
  int64_t capacity_bytes;  ///< memory of the device
  double peak_flops;       ///< dense bfloat16, FLOP/s; 0: not known
  int32_t emulated;        ///< 1: figures of the device are computed, not measured
};

/// One number that the device counts. Memory has torch's flat keys ("allocated_bytes.all.current").
struct DeviceStatistic {
  const char* name;
  double value;
};

/// What one run of an NKI kernel keeps a logical core's engines busy with.
struct DeviceKernelWork {
  double tensor_s, vector_s, scalar_s, gpsimd_s;  ///< seconds of the physical core that has most
  double hbm_bytes;                               ///< read and written
  int32_t on_device;                              ///< 1: on tensors of the device; 0: of the host
};

/// What a provider offers. Its tensors' data pointers can be read and written by the host. Functions that
/// can fail return null, or a text that says what is wrong and what to do, valid until the next call.
struct DeviceProvider {
  uint32_t abi;               ///< kDeviceProviderAbi
  const char* torch_version;  ///< of the torch it was compiled for: "2.13.0"
  const char* device_type;    ///< the name that it gives PrivateUse1: "neuron"

  /// Takes the device for this process and registers it with torch: afterwards device 0 of `device_type` can
  /// be used. Called once, before anything else below. A text that begins with "config: " is about
  /// the environment.
  const char* (*start)(const DeviceStart* process);
  void (*describe)(DeviceDescription* description);

  /// Writes up to `capacity` numbers and returns how many there are.
  int64_t (*statistics)(DeviceStatistic* statistics, int64_t capacity);
  void (*reset_peak_memory)();

  /// Says what the process does from now on ("weights", "forward", "backward", "optimizer", ...; a text that
  /// lives for ever), for accounts of who holds memory.
  void (*set_phase)(const char* phase);
  /// Tells of bytes that left this device for another one.
  void (*count_link_bytes)(double bytes);
  /// Tells of a kernel that the simulator has run on this thread. Of a kernel on the host's tensors it is
  /// work of the device only where it runs in an operator of the device.
  void (*count_kernel)(const DeviceKernelWork* work);
};
}

}  // namespace titan
