#pragma once

namespace titan::neuron {

/// Registers what torch asks a device for beside operators: generators, the number of devices, storages that
/// grow.
void register_hooks();

}  // namespace titan::neuron
