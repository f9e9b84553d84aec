#include "titan/nn/linear.h"

#include <ATen/TensorOperators.h>

#include "titan/ops/linear.h"

namespace titan {

Linear::Linear(const LinearConfig& config) {
  add_parameter("weight", weight, {config.out_features, config.in_features},
                {Init::Kind::normal, config.init_std});
  if (config.bias) add_parameter("bias", bias, {config.out_features}, {Init::Kind::constant, 0.0});
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  const at::Tensor y = linear(x, weight.value);
  // Cut by columns, y is one of the axis's summands, and the bias belongs into one of them.
  const bool first_summand = weight.value_block.offset[1] == 0;
  return bias.value.defined() && first_summand ? y + bias.value.to(y.scalar_type()) : y;
}

template <>
ModulePtr build(const LinearConfig& config) {
  return std::make_shared<Linear>(config);
}

}  // namespace titan
