// A provider that was built for an older torch.
#include "tests/neuron_providers/provider.h"

const titan::DeviceProvider* titan_device_provider() {
  static titan::DeviceProvider provider = titan::tests::provider_with(titan::tests::start_nothing);
  provider.torch_version = "1.0.0";
  return &provider;
}
