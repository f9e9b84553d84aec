#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "titan/ops/tensor_axis.h"

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

/// Where this rank's part of the head's weight lies.
struct VocabularyShard {
  VocabularyRows rows;
  const TensorAxis& axis;
  int64_t chunk = 0;  ///< as above; the same on every rank
};

/// The same where every rank of an axis holds some rows of the weight: no logits leave a rank. For each row
/// it gathers three numbers, the largest of a rank's logits, the sum of exp below it, and the label's logit.
/// The loss is whole and has the same bits on every rank; dX is this rank's summand, dW that of its rows.
at::Tensor linear_cross_entropy(const at::Tensor& x_BTD, const at::Tensor& weight_VD,
                                const at::Tensor& labels_BT, double normalizer, const VocabularyShard& shard);

}  // namespace titan
