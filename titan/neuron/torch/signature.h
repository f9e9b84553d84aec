#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// An operator's name with its hash, which is the same in every process.
struct OperationName {
  explicit OperationName(std::string name);

  std::string text;  ///< "aten::add.Tensor"
  uint64_t hash;
};

/// Notes one call of an operator on the core: a compilation when these shapes and dtypes are new to it, and
/// its work on the current stream's simulated time: `kernels` where NKI kernels did it, else what its class
/// and shapes say. Tensors may be undefined.
void note_call(const OperationName& operation, std::span<const at::Tensor> inputs,
               std::span<const at::Tensor> outputs, const std::optional<EngineTimes>& kernels = {});

/// Notes work that no compiler sees: memory that is written by DMA.
void note_transfer(double bytes);

}  // namespace titan::neuron
