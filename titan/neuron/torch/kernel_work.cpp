#include "titan/neuron/torch/kernel_work.h"

#include "titan/neuron/torch/core.h"
#include "titan/neuron/torch/streams.h"

namespace titan::neuron {
namespace {

thread_local KernelWork* operator_work = nullptr;

EngineTimes times_of(const DeviceKernelWork& work) {
  return {.tensor = work.tensor_s,
          .vector = work.vector_s,
          .scalar = work.scalar_s,
          .gpsimd = work.gpsimd_s,
          .hbm = work.hbm_bytes / core().rates.hbm_bytes()};
}

}  // namespace

KernelWork::KernelWork() : outer_(operator_work) { operator_work = this; }

KernelWork::~KernelWork() { operator_work = outer_; }

void note_kernel(const DeviceKernelWork& work) {
  const EngineTimes times = times_of(work);
  if (operator_work == nullptr) {
    if (work.on_device != 0) core().timeline.run(current_stream_id(), times);
    return;
  }
  std::optional<EngineTimes>& sum = operator_work->times_;
  if (!sum) sum.emplace();
  *sum += times;
}

}  // namespace titan::neuron
