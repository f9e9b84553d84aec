// A provider that calls itself neuron and registers another name with torch.
#include <c10/core/DeviceType.h>

#include "tests/neuron_providers/provider.h"

namespace {

const char* start(const titan::DeviceStart*) {
  c10::register_privateuse1_backend("other");
  return nullptr;
}

}  // namespace

const titan::DeviceProvider* titan_device_provider() {
  static const titan::DeviceProvider provider = titan::tests::provider_with(start);
  return &provider;
}
