#include "titan/nn/rms_norm.h"

#include "titan/ops/rms_norm.h"

namespace titan {

RMSNorm::RMSNorm(const RMSNormConfig& config) : eps_(config.eps) {
  add_parameter("weight", weight, {config.normalized_shape}, {Init::Kind::constant, 1.0});
}

at::Tensor RMSNorm::forward(const at::Tensor& x) const { return rms_norm(x, weight.value, eps_); }

template <>
ModulePtr build(const RMSNormConfig& config) {
  return std::make_shared<RMSNorm>(config);
}

}  // namespace titan
