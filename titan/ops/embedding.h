#pragma once

#include <ATen/core/Tensor.h>

namespace titan {

/// Rows of weight_VD picked by ids_BT (int64 or int32), as [B, T, D] in `dtype`. The weight's gradient is
/// dense, in the weight's dtype, and added in token order. Throws ValueError naming an id outside [0, V).
at::Tensor embedding(const at::Tensor& weight_VD, const at::Tensor& ids_BT, at::ScalarType dtype);

}  // namespace titan
