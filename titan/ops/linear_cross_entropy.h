#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace titan {

/// Label of a position that does not count.
inline constexpr int64_t kIgnoreLabel = -100;

/// sum over labels != -100 of cross-entropy(x · weightᵀ, label) / normalizer, as a float32 scalar.
/// x_BTD is [..., D] float32 or bfloat16, weight_VD has x's dtype or is a float32 master (rounded to x's
/// dtype first), labels_BT int64 [...]. `chunk` rows of logits live at a time (0: as many as fill 8 MiB).
/// While recording, dX and dW are made in the forward, chunk by chunk, and only scaled in the backward (three
/// matmuls). Deterministic. Throws ValueError for shapes that do not fit, a label outside [0, V) and a
/// normalizer that is not positive.
at::Tensor linear_cross_entropy(const at::Tensor& x_BTD, const at::Tensor& weight_VD,
                                const at::Tensor& labels_BT, double normalizer, int64_t chunk = 0);

}  // namespace titan
