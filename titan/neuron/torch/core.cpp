#include "titan/neuron/torch/core.h"

#include <fstream>
#include <iterator>
#include <memory>

#include "titan/base/error.h"

namespace titan::neuron {
namespace {

/// Never destroyed: tensors that outlive main() still uncharge their memory.
Core*& core_pointer() {
  static Core* pointer = nullptr;
  return pointer;
}

}  // namespace

Core::Core(const Instance& machine, const DeviceStart& process)
    : instance(machine),
      claim(instance.core_of(process.local_rank, process.local_world_size), instance.lnc),
      name(format("neuron (emulated trn2 core {}, LNC {})", claim.core(), instance.lnc)),
      rates(instance.lnc),
      hbm(instance.hbm_bytes, name),
      cache(CacheOptions::from_env()) {
  CoreReport& report = claim.report();
  report.rank = process.rank;
  report.local_rank = process.local_rank;
  report.world_size = process.local_world_size;
  report.hbm_capacity = instance.hbm_bytes;
  report.compilations = 0;
  hbm.mirror(&report.hbm_allocated, &report.hbm_peak);
}

void start_core(const DeviceStart& process) {
  check(core_pointer() == nullptr, "a process takes one core");
  core_pointer() = std::make_unique<Core>(Instance::from_env(), process).release();
}

Core& core() {
  check(core_pointer() != nullptr, "the core is taken before it is used");
  return *core_pointer();
}

}  // namespace titan::neuron
