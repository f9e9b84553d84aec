#pragma once

#include <ATen/core/Tensor.h>

namespace titan {

/// y_…O = x_…I · weight_OIᵀ. x is float32 or bfloat16; the weight has x's dtype or is a float32 master, which
/// is rounded to x's dtype first. The result has x's dtype, the weight's gradient the weight's dtype. Where
/// the CPU has no bfloat16 arithmetic the operands are widened once and multiplied in float32. Keeps x and
/// the weight by reference. Throws ValueError if shapes or dtypes do not fit.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight_OI);

}  // namespace titan
