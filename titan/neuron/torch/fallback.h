#pragma once

namespace titan::neuron {

/// Registers the CPU's kernels for the device: every operator that has one by name, and whatever comes later
/// by a fallback. An operator without a CPU kernel is an error that names it.
void register_operators();

}  // namespace titan::neuron
