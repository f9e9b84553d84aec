#include "titan/train/kernel_check_weights.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <string>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/ops/autograd.h"
#include "titan/train/kernel_check_sets.h"

namespace titan {

using at::Tensor;

std::vector<CheckedValue> weights_of(const Module& module) {
  std::vector<CheckedValue> weights;
  for (const auto& [name, parameter] : module.named_parameters()) weights.push_back({name, parameter->value});
  std::ranges::sort(weights, {}, &CheckedValue::name);
  return weights;
}

ModulePtr build_with_weights(Node node, at::ScalarType dtype, at::Device device) {
  const NoGrad no_grad;
  ModulePtr module = node.type->build(node.data);
  if (!module) throw ValueError("build() of {} gives no module", type_name(*node.type));
  materialize(*module, dtype, device, kCheckSeed);
  return module;
}

void add_noise(const Module& module, at::ScalarType dtype, at::Device device) {
  const NoGrad no_grad;
  auto generator = at::detail::createCPUGenerator(kCheckSeed + 1);
  for (const auto& [name, parameter] : module.named_parameters()) {
    if (parameter->init.kind == Init::Kind::normal) continue;
    parameter->value.add_(at::randn(parameter->value.sizes(), generator).mul_(0.2).to(dtype).to(device));
  }
}

void copy_weights(const Module& from, const Module& to) {
  const NoGrad no_grad;
  const std::vector<CheckedValue> wanted = weights_of(from), there = weights_of(to);
  const auto find = [](const std::vector<CheckedValue>& weights, const CheckedValue& weight) {
    const auto found = std::ranges::find(weights, weight.name, &CheckedValue::name);
    return found != weights.end() && found->tensor.sizes() == weight.tensor.sizes() ? found->tensor
                                                                                    : Tensor();
  };
  const auto without = [&](const std::vector<CheckedValue>& one, const std::vector<CheckedValue>& other) {
    std::vector<std::string> names;
    for (const CheckedValue& weight : one) {
      if (!find(other, weight).defined())
        names.push_back(format("{} {}", weight.name, weight.tensor.sizes()));
    }
    return names.empty() ? "none" : join(names, ", ");
  };
  const std::string missing = without(wanted, there), extra = without(there, wanted);
  if (missing != "none" || extra != "none") {
    throw ValueError(
        "its weights are not those of what it replaces, and the two cannot be compared: missing "
        "are {}, extra are {}",
        missing, extra);
  }
  for (const CheckedValue& weight : there) weight.tensor.copy_(find(wanted, weight));
}

}  // namespace titan
