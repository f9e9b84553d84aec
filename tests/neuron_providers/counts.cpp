// A provider of a device that is registered as torch wants it, and that shows what a test tells it to count.
// It has no memory and no operators.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <map>
#include <string>

#include "tests/neuron_providers/provider.h"

namespace {

struct OneDevice final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1> {
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, OneDevice)

std::map<std::string, double>& counts() {
  static std::map<std::string, double> values;
  return values;
}

const char* start(const titan::DeviceStart* process) {
  c10::register_privateuse1_backend("neuron");
  counts()["started.rank"] = static_cast<double>(process->rank);
  counts()["started.local_rank"] = static_cast<double>(process->local_rank);
  counts()["started.local_world_size"] = static_cast<double>(process->local_world_size);
  return nullptr;
}

int64_t statistics(titan::DeviceStatistic* out, int64_t capacity) {
  int64_t index = 0;
  for (const auto& [name, value] : counts()) {
    if (index < capacity) out[index] = {.name = name.c_str(), .value = value};
    ++index;
  }
  return index;
}

const titan::DeviceProvider& provider() {
  static const titan::DeviceProvider offered = [] {
    titan::DeviceProvider made = titan::tests::provider_with(start);
    made.statistics = statistics;
    made.reset_peak_memory = [] { counts()["resets"] += 1; };
    made.set_phase = [](const char* phase) { counts()[std::string("phase.") + phase] += 1; };
    made.count_link_bytes = [](double bytes) { counts()["link_bytes"] += bytes; };
    made.count_kernel = [](const titan::DeviceKernelWork* work) {
      counts()["kernel_bytes"] += work->hbm_bytes;
    };
    return made;
  }();
  return offered;
}

}  // namespace

const titan::DeviceProvider* titan_device_provider() { return &provider(); }

/// Sets a number that the device counts.
extern "C" void titan_test_set_count(const char* name, double value);
void titan_test_set_count(const char* name, double value) { counts()[name] = value; }
