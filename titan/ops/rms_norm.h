#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace titan {

/// x / sqrt(mean(x², last dim) + eps) · weight_D, float32 inside and rounded once to x's dtype. x is [..., D]
/// float32 or bfloat16, the weight float32 or x's dtype; its gradient has its dtype. Throws ValueError if
/// shapes do not fit.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight_D, double eps);

/// (x + residual, rms_norm(x + residual)) in one pass, bit-equal to the two operators.
std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& residual,
                                               const at::Tensor& weight_D, double eps);

}  // namespace titan
