#pragma once

#include <span>

#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// Of titan::adamw_: `inputs` are parameters, gradients and both moments, four lists one behind the other.
/// Parameters without a gradient are passed over. Where the shapes leave it open how many those are, all have
/// a gradient, or else as few as possible.
Work adamw_work(std::span<const TensorShape> inputs);

}  // namespace titan::neuron
