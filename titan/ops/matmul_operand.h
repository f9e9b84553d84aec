#pragma once

#include <ATen/core/Tensor.h>

namespace titan {

/// The dtype in which the CPU multiplies matrices stored as `dtype`: float32 where it has no bfloat16
/// arithmetic.
at::ScalarType matmul_dtype(at::ScalarType dtype);

/// `matrix` rounded to `dtype` and held as `compute`; itself if that changes nothing.
at::Tensor matmul_operand(const at::Tensor& matrix, at::ScalarType dtype, at::ScalarType compute);

}  // namespace titan
