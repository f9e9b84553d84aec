// A provider of an ABI that does not exist yet.
#include "tests/neuron_providers/provider.h"

const titan::DeviceProvider* titan_device_provider() {
  static titan::DeviceProvider provider = titan::tests::provider_with(titan::tests::start_nothing);
  provider.abi = 99;
  return &provider;
}
