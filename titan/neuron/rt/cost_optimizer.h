#pragma once

#include <span>

#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// Of titan::adamw_: `inputs` are parameters, gradients and both moments, four lists one behind the other.
/// Parameters without a gradient are passed over; where shapes leave it open which ones those are, the
/// fewest gradients that fit are counted.
Work adamw_work(std::span<const TensorShape> inputs);

}  // namespace titan::neuron
