#include "titan/ops/matmul_operand.h"

#include "titan/ops/cpu_info.h"

namespace titan {

at::ScalarType matmul_dtype(at::ScalarType dtype) {
  return dtype == at::kBFloat16 && !bf16_arithmetic() ? at::kFloat : dtype;
}

at::Tensor matmul_operand(const at::Tensor& matrix, at::ScalarType dtype, at::ScalarType compute) {
  return matrix.to(dtype).to(compute);
}

}  // namespace titan
