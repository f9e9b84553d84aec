#pragma once

#include <span>
#include <string_view>

#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// What the matrix products of a call do.
struct Products {
  DeviceDtype dtype = DeviceDtype::float32;  ///< of the left operand
  double flops = 0;                          ///< a multiplication and an addition count two
  double exponentials = 0;                   ///< of a softmax between them
};

/// Of an operator of class matmul, attention or loss; arguments as work_of has them.
///
/// [Note: pairs of attention] Shapes do not say which keys a query sees. Counted are the pairs under a causal
/// mask, which is the least that a program compiled for the shapes alone can do: where documents begin is
/// known when it runs only. aten's mask begins at the first key; titan's queries are the last of the keys.
Products products_of(std::string_view name, std::span<const TensorShape> inputs,
                     std::span<const TensorShape> outputs);

}  // namespace titan::neuron
