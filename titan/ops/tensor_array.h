#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "titan/ops/kernels/kernels.h"

// Between tensors and the pointers that kernels take.
namespace titan {

/// How a float32 or bfloat16 tensor is stored. Throws ValueError naming `what` for any other dtype.
Element element_of(const at::Tensor& tensor, std::string_view what);

/// The data of a tensor whose dtype was checked; null if it is undefined.
ConstArray const_array(const at::Tensor& tensor);
Array array(const at::Tensor& tensor);

/// Calls fn(begin, end) over parts of [0, rows) on the intra-op threads; a part is at least about 16K
/// elements.
void parallel_rows(int64_t rows, int64_t elements_per_row, const std::function<void(int64_t, int64_t)>& fn);

/// The tensor as float32, contiguous; itself if it is that.
at::Tensor as_float(const at::Tensor& tensor);

/// Throws ValueError unless `weight` has x's dtype or is a float32 master.
void check_weight_dtype(std::string_view op, const at::Tensor& x, const at::Tensor& weight);

}  // namespace titan
