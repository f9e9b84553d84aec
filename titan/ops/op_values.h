#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "titan/ops/recorded_operators.h"

namespace titan {

/// The tensors of values, one after another: undefined for a missing optional one.
std::vector<at::Tensor> tensors_of(OpValues values);

/// How many tensors tensors_of() takes from each value.
std::vector<size_t> tensor_counts(OpValues values);

/// Values of the same form with other tensors.
std::vector<c10::IValue> with_tensors(OpValues form, std::span<const at::Tensor> tensors);

/// Whether what two tensors lie in has bytes in common.
bool shares_bytes(const at::Tensor& a, const at::Tensor& b);

}  // namespace titan
