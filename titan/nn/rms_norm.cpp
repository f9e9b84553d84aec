#include "titan/nn/rms_norm.h"

#include <ATen/TensorOperators.h>

#include "titan/ops/rms_norm.h"

namespace titan {

RMSNorm::RMSNorm(const RMSNormConfig& config) : eps_(config.eps) {
  add_parameter("weight", weight, {config.normalized_shape}, {Init::Kind::constant, 1.0});
}

at::Tensor RMSNorm::forward(const at::Tensor& x) const { return rms_norm(x, weight.value, eps_); }

std::pair<at::Tensor, at::Tensor> RMSNorm::add_and_norm(const at::Tensor& x,
                                                        const at::Tensor& residual) const {
  if (typeid(*this) == typeid(RMSNorm)) return add_rms_norm(x, residual, weight.value, eps_);
  const at::Tensor sum = x + residual;
  return {sum, forward(sum)};
}

template <>
ModulePtr build(const RMSNormConfig& config) {
  return std::make_shared<RMSNorm>(config);
}

}  // namespace titan
