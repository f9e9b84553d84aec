#include "titan/ops/checkpoint.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"

namespace titan {

namespace {

/// Runs the segment again with recording on and pushes `grad_outputs` through it.
std::vector<at::Tensor> run_again(const Segment& segment, std::span<const at::Tensor> inputs,
                                  std::span<const at::Tensor> grad_outputs) {
  const at::AutoGradMode record(true);
  std::vector<at::Tensor> leaves;
  leaves.reserve(inputs.size());
  for (const auto& input : inputs) {
    auto leaf = input.defined() ? input.detach() : at::Tensor();
    if (leaf.defined() && input.requires_grad()) leaf.requires_grad_();
    leaves.push_back(std::move(leaf));
  }
  const auto outputs = segment(leaves);
  check(outputs.size() == grad_outputs.size(),
        "a checkpointed segment gives as many outputs the second time");
  torch::autograd::variable_list roots, root_grads;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!grad_outputs[i].defined() || !outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    root_grads.push_back(grad_outputs[i]);
  }
  if (!roots.empty()) torch::autograd::backward(roots, root_grads);
  std::vector<at::Tensor> grads;
  grads.reserve(leaves.size());
  for (const auto& leaf : leaves) grads.push_back(leaf.defined() ? leaf.grad() : at::Tensor());
  return grads;
}

}  // namespace

std::vector<at::Tensor> checkpoint(std::string name, const Segment& segment,
                                   const std::vector<at::Tensor>& inputs) {
  Backward backward{.name = std::move(name), .inputs = inputs, .saved = inputs};
  // The parameters used inside are not among the inputs, so something else has to ask for the backward.
  if (at::GradMode::is_enabled()) backward.inputs.push_back(at::empty({0}).requires_grad_());
  backward.fn = [segment](const GradientCall& call) {
    auto grads = run_again(segment, call.saved, call.grad_outputs);
    grads.emplace_back();
    return grads;
  };
  return differentiable(std::move(backward), [&] { return segment(inputs); });
}

at::Tensor checkpoint(std::string name,
                      const std::function<at::Tensor(const std::vector<at::Tensor>&)>& segment,
                      const std::vector<at::Tensor>& inputs) {
  const Segment listed = [segment](const std::vector<at::Tensor>& tensors) {
    return std::vector<at::Tensor>{segment(tensors)};
  };
  return checkpoint(std::move(name), listed, inputs).front();
}

}  // namespace titan
