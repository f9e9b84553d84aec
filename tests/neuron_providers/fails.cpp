// A provider whose start fails: about the environment when TITAN_TEST_FAULT is "config", with an exception
// when it is "throw", otherwise about anything else.
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "tests/neuron_providers/provider.h"

namespace {

const char* start(const titan::DeviceStart* process) {
  const char* variable = std::getenv("TITAN_TEST_FAULT");
  const std::string_view fault = variable ? variable : "";
  if (fault == "throw") throw std::runtime_error("the driver went away");
  if (fault == "config") return "config: NEURON_TEST=9: only 1 or 2; unset it";
  return process->local_world_size > 1 ? "several processes" : "core 0 is taken by another process";
}

}  // namespace

const titan::DeviceProvider* titan_device_provider() {
  static const titan::DeviceProvider provider = titan::tests::provider_with(start);
  return &provider;
}
