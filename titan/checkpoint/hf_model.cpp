#include "titan/checkpoint/hf_model.h"

#include "titan/nn/module.h"

namespace titan {

std::vector<NamedTensor> named_tensors(const Module& model) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, parameter] : model.named_parameters()) tensors.push_back({name, parameter->value});
  return tensors;
}

}  // namespace titan
