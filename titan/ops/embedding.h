#pragma once

#include <ATen/core/Tensor.h>

#include "titan/ops/tensor_axis.h"

namespace titan {

/// Rows of weight_VD picked by ids_BT (int64 or int32), as [B, T, D] in `dtype`. The weight's gradient is
/// dense, in the weight's dtype, and added in token order. Throws ValueError naming an id outside [0, V).
/// Where the weight holds only `rows` of the table, ids of other rows give zeros and no gradient; an id
/// outside the whole vocabulary stays an error.
at::Tensor embedding(const at::Tensor& weight_VD, const at::Tensor& ids_BT, at::ScalarType dtype,
                     VocabularyRows rows = {});

}  // namespace titan
