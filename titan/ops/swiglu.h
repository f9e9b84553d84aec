#pragma once

#include <ATen/core/Tensor.h>

namespace titan {

/// silu(gate) · up, silu(x) = x / (1 + exp(-x)), float32 inside and rounded once. Same shape and dtype on
/// both sides.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace titan
