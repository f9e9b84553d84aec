#include "titan/ops/autograd.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "titan/base/error.h"
#include "titan/ops/rethrow.h"

namespace titan {

namespace {

namespace engine = torch::autograd;

/// The graph node behind `differentiable`.
class BackwardNode final : public engine::Node {
 public:
  BackwardNode(std::string name, engine::edge_list edges) : Node(std::move(edges)), name_(std::move(name)) {}

  std::string name() const override { return name_; }

  void keep(const Backward& backward, const std::vector<at::Tensor>& outputs) {
    fn_ = backward.fn;
    saved_.reserve(backward.saved.size() + backward.saved_outputs.size());
    for (const auto& tensor : backward.saved) saved_.emplace_back(tensor, /*is_output=*/false);
    for (const int64_t index : backward.saved_outputs) {
      const bool is_output = index < backward.num_differentiable;
      saved_.emplace_back(outputs.at(static_cast<size_t>(index)), is_output);
    }
  }

  void release_variables() override {
    saved_.clear();
    fn_ = nullptr;
  }

 private:
  engine::variable_list apply(engine::variable_list&& grad_outputs) override {
    if (!fn_) throw std::runtime_error(engine::ERR_BACKWARD_TWICE);
    if (c10::GradMode::is_enabled()) {
      throw ValueError("{} has no second derivative; call backward without create_graph", name_);
    }
    std::vector<at::Tensor> saved;
    saved.reserve(saved_.size());
    for (const auto& variable : saved_) saved.push_back(variable.unpack(getptr()));
    std::vector<uint8_t> needs_grad(num_outputs());
    for (size_t i = 0; i < needs_grad.size(); ++i) needs_grad[i] = task_should_compute_output(i);
    auto grads = called({saved, grad_outputs, needs_grad});
    check(grads.size() == needs_grad.size(), "a backward returns one gradient per input");
    return grads;
  }

  /// The engine's threads let only std::exception out, and say of none whose it is.
  std::vector<at::Tensor> called(const GradientCall& call) const {
    try {
      return fn_(call);
    } catch (...) {
      rethrow_from("the backward of " + name_);
    }
  }

  std::string name_;
  std::function<std::vector<at::Tensor>(const GradientCall&)> fn_;
  std::vector<engine::SavedVariable> saved_;
};

bool same_tensor(const at::Tensor& a, const at::Tensor& b) {
  return a.unsafeGetTensorImpl() == b.unsafeGetTensorImpl();
}

/// Calls every hook of one parameter, in the order of registration.
class GradReadyHooks final : public engine::PostAccumulateGradHook {
 public:
  void add(std::function<void(const at::Tensor&)> fn) { hooks_.push_back(std::move(fn)); }
  void operator()(const engine::Variable& parameter) override {
    for (const auto& hook : hooks_) hook(parameter);
  }

 private:
  std::vector<std::function<void(const at::Tensor&)>> hooks_;
};

}  // namespace

std::vector<at::Tensor> differentiable(Backward backward,
                                       const std::function<std::vector<at::Tensor>()>& forward) {
  const auto requires_grad = [](const at::Tensor& input) { return input.defined() && input.requires_grad(); };
  const bool records = c10::GradMode::is_enabled() && std::ranges::any_of(backward.inputs, requires_grad);
  c10::intrusive_ptr<BackwardNode> node;
  if (records) {
    engine::edge_list edges;
    edges.reserve(backward.inputs.size());
    for (const auto& input : backward.inputs) {
      edges.push_back(requires_grad(input) ? engine::impl::gradient_edge(input) : engine::Edge());
    }
    node = c10::make_intrusive<BackwardNode>(backward.name, std::move(edges));
  }
  std::vector<at::Tensor> outputs;
  {
    const NoGrad guard;
    outputs = forward();
    for (auto& output : outputs) {
      const auto is_output = [&](const at::Tensor& input) {
        return input.defined() && same_tensor(input, output);
      };
      if (output.defined() && std::ranges::any_of(backward.inputs, is_output)) output = output.detach();
    }
  }
  if (!records) return outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (static_cast<int64_t>(i) < backward.num_differentiable) engine::set_history(outputs[i], node);
  }
  node->keep(backward, outputs);
  return outputs;
}

at::Tensor differentiable(Backward backward, const std::function<at::Tensor()>& forward) {
  return differentiable(std::move(backward), [&] { return std::vector<at::Tensor>{forward()}; }).front();
}

void on_grad_ready(const at::Tensor& parameter, std::function<void(const at::Tensor&)> fn) {
  check(parameter.is_leaf() && parameter.requires_grad(),
        "gradient hooks hang on leaves that require a gradient");
  auto* hooks = dynamic_cast<GradReadyHooks*>(engine::impl::post_acc_grad_hooks(parameter).get());
  if (hooks == nullptr) {
    auto fresh = std::make_unique<GradReadyHooks>();
    hooks = fresh.get();
    engine::impl::set_post_acc_grad_hooks(parameter, std::move(fresh));
  }
  hooks->add(std::move(fn));
}

void backward(const at::Tensor& output, const at::Tensor& grad_output) {
  engine::backward({output},
                   grad_output.defined() ? engine::variable_list{grad_output} : engine::variable_list{});
}

}  // namespace titan
