#pragma once

#include <atomic>
#include <cstdint>

#include "titan/base/device_provider.h"
#include "titan/neuron/rt/compilation_cache.h"
#include "titan/neuron/rt/core_claim.h"
#include "titan/neuron/rt/cost.h"
#include "titan/neuron/rt/hbm.h"
#include "titan/neuron/rt/instance.h"
#include "titan/neuron/rt/timeline.h"

namespace titan::neuron {

/// The logical core of this process.
struct Core {
  Core(const Instance& instance, const DeviceStart& process);

  Instance instance;
  CoreClaim claim;
  std::string name;  ///< "neuron (emulated trn2 core 3, LNC 2)"
  Rates rates;
  HbmLedger hbm;
  CompilationCache cache;
  Timeline timeline;
  std::atomic<const char*> phase = "start";  ///< what the process does, for who holds memory
  std::atomic<double> link_seconds = 0;
  std::atomic<int64_t> operator_calls = 0;  ///< carried out by CPU kernels
};

/// Takes a core for this process. ConfigError and ValueError as the parts throw them.
void start_core(const DeviceStart& process);

/// The core that start_core() has taken.
Core& core();

}  // namespace titan::neuron
