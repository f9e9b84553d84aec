#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

#include "titan/neuron/torch/signature.h"

namespace titan::neuron {

/// What the emulator needs to know of an operator, read once from its schema.
struct OperatorFacts {
  enum class Kind : uint8_t { tensor, tensors, optional_tensors, device, generator, other };
  struct Argument {
    Kind kind = Kind::other;
    bool written = false;
  };

  explicit OperatorFacts(const c10::OperatorHandle& op);

  OperationName name;
  std::vector<Argument> arguments;
  size_t num_returns = 0;
  bool returns_list = false;
  /// Whether the compiler sees it: arithmetic does, moving and looking at memory does not.
  bool compiled = true;
  /// Whether a tensor of the host may stand beside tensors of the device.
  bool takes_host_tensors = false;
};

}  // namespace titan::neuron
