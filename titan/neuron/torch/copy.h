#pragma once

namespace titan::neuron {

/// Registers copies between host and device, and on the device.
void register_copies();

}  // namespace titan::neuron
