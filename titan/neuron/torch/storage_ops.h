#pragma once

namespace titan::neuron {

/// Registers what makes tensors, views of them, and storages, and clears memory: operators that compute
/// nothing.
void register_storage_operators();

}  // namespace titan::neuron
