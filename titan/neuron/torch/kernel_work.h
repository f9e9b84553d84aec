#pragma once

#include <optional>

#include "titan/base/device_provider.h"
#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// While it lives, the NKI kernels that this thread runs are the work of one operator.
class KernelWork {
 public:
  KernelWork();
  ~KernelWork();
  KernelWork(const KernelWork&) = delete;
  KernelWork& operator=(const KernelWork&) = delete;

  /// Their work; nothing where none has run.
  const std::optional<EngineTimes>& times() const { return times_; }

 private:
  friend void note_kernel(const DeviceKernelWork& work);

  KernelWork* outer_;
  std::optional<EngineTimes> times_;
};

/// Notes the run of a kernel: as work of this thread's operator, or else, if it ran on the device's tensors,
/// on the current stream.
void note_kernel(const DeviceKernelWork& work);

}  // namespace titan::neuron
