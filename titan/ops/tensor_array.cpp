#include "titan/ops/tensor_array.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "titan/base/error.h"

namespace titan {

namespace {

Element stored_as(const at::Tensor& tensor) {
  return tensor.defined() && tensor.scalar_type() == at::kBFloat16 ? Element::bf16 : Element::f32;
}

}  // namespace

Element element_of(const at::Tensor& tensor, std::string_view what) {
  const auto dtype = tensor.scalar_type();
  if (dtype != at::kFloat && dtype != at::kBFloat16) {
    throw ValueError("{} is {}; it must be float32 or bfloat16", what, c10::toString(dtype));
  }
  return stored_as(tensor);
}

ConstArray const_array(const at::Tensor& tensor) {
  return {tensor.defined() ? tensor.const_data_ptr() : nullptr, stored_as(tensor)};
}

Array array(const at::Tensor& tensor) {
  return {tensor.defined() ? tensor.mutable_data_ptr() : nullptr, stored_as(tensor)};
}

void parallel_rows(int64_t rows, int64_t elements_per_row, const std::function<void(int64_t, int64_t)>& fn) {
  constexpr int64_t kGrainElements = 16384;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, elements_per_row));
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) { fn(begin, end); });
}

at::Tensor as_float(const at::Tensor& tensor) { return tensor.to(at::kFloat).contiguous(); }

void check_weight_dtype(std::string_view op, const at::Tensor& x, const at::Tensor& weight) {
  element_of(x, format("{}: x", op));
  if (weight.scalar_type() != x.scalar_type() && weight.scalar_type() != at::kFloat) {
    throw ValueError("{}: weight is {} and x is {}; the weight must be float32 or have x's dtype", op,
                     c10::toString(weight.scalar_type()), c10::toString(x.scalar_type()));
  }
}

}  // namespace titan
