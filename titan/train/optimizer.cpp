#include "titan/train/optimizer.h"

#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <regex>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/ops/adamw.h"
#include "titan/ops/autograd.h"

namespace titan {
namespace {

std::regex compile_pattern(const ParamGroupConfig& group) {
  try {
    return std::regex(group.pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw ConfigError("optimizer.param_groups: pattern '{}' is not a regular expression: {}", group.pattern,
                      error.what());
  }
}

/// Python's repr of a float, as the reference prints these settings: 0.0008 and 1e-08, where the shortest
/// text would be 8e-04.
std::string python_repr(double value) {
  char text[64];
  auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  const std::string scientific(text, end);
  const size_t e = scientific.find('e');
  if (e == std::string::npos) return scientific;  // inf, nan
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed).ptr;
  const std::string digits(text, end);
  return digits.find('.') == std::string::npos ? digits + ".0" : digits;
}

std::string_view name_of(OptimizerName name) { return name == OptimizerName::AdamW ? "AdamW" : "Adam"; }

void append(ParamGroup& group, const at::Tensor& parameter, std::optional<at::ScalarType> moment_dtype) {
  const auto options =
      parameter.options().dtype(moment_dtype.value_or(parameter.scalar_type())).requires_grad(false);
  group.params.push_back(parameter);
  group.exp_avgs.push_back(at::zeros_like(parameter, options));
  group.exp_avg_sqs.push_back(at::zeros_like(parameter, options));
}

// Adam's decay is part of the gradient, so that the moments see it; AdamW's is applied by the operator.
std::vector<at::Tensor> decayed_gradients(const ParamGroup& group, std::vector<at::Tensor> grads,
                                          double grad_scale) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    grads[i] =
        at::add(at::mul(grads[i], grad_scale), group.params[i], group.config.optimizer_kwargs.weight_decay);
  }
  return grads;
}

std::vector<at::Tensor> gradients_of(const ParamGroup& group) {
  std::vector<at::Tensor> grads;
  grads.reserve(group.params.size());
  for (const at::Tensor& parameter : group.params) grads.push_back(parameter.grad());
  return grads;
}

void require_match(const ParamGroupConfig& group, size_t index, bool pattern_found) {
  if (pattern_found) return;
  throw ConfigError(
      "optimizer.param_groups: pattern '{}' (group {}) finds no trainable parameter; remove the group or "
      "mend the "
      "pattern",
      group.pattern, index);
}

void require_parameters(const ParamGroup& group, size_t index) {
  if (!group.params.empty()) return;
  throw ConfigError(
      "optimizer.param_groups: pattern '{}' (group {}) only finds parameters that an earlier group has "
      "taken; the first "
      "match wins, so put the narrower pattern first",
      group.config.pattern, index);
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, const std::vector<Module::NamedParameter>& parameters) {
  if (config.param_groups.empty()) {
    throw ConfigError("optimizer.param_groups is empty; set config.optimizer = default_adamw(8e-4)");
  }
  std::vector<std::regex> patterns;
  for (const ParamGroupConfig& group : config.param_groups) {
    patterns.push_back(compile_pattern(group));
    groups_.push_back({.config = group, .params = {}, .exp_avgs = {}, .exp_avg_sqs = {}});
  }
  std::optional<at::ScalarType> moment_dtype;
  if (config.implementation == OptimizerImplementation::fused_opt_states_bf16) moment_dtype = at::kBFloat16;

  std::vector<bool> pattern_found(patterns.size(), false);
  std::optional<std::string> uncovered;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter->trainable) continue;
    std::optional<size_t> owner;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (!std::regex_search(name, patterns[i])) continue;
      pattern_found[i] = true;
      if (!owner) owner = i;
    }
    if (owner) {
      append(groups_[*owner], parameter->shard, moment_dtype);
    } else if (!uncovered) {
      uncovered = name;
    }
  }
  for (size_t i = 0; i < groups_.size(); ++i) require_match(groups_[i].config, i, pattern_found[i]);
  if (uncovered) {
    throw ConfigError(
        "optimizer.param_groups: no pattern finds parameter '{}'; add a last group with pattern '.*'",
        *uncovered);
  }
  for (size_t i = 0; i < groups_.size(); ++i) require_parameters(groups_[i], i);
}

void Optimizer::step(double lr_factor, double grad_scale) {
  const NoGrad no_grad;
  ++num_steps_;
  for (ParamGroup& group : groups_) {
    const OptimizerKwargs& kwargs = group.config.optimizer_kwargs;
    AdamWOptions options{.lr = kwargs.lr * lr_factor,
                         .beta1 = kwargs.betas.at(0),
                         .beta2 = kwargs.betas.at(1),
                         .eps = kwargs.eps,
                         .weight_decay = kwargs.weight_decay,
                         .step = num_steps_,
                         .grad_scale = grad_scale};
    std::vector<at::Tensor> grads = gradients_of(group);
    if (group.config.optimizer_name == OptimizerName::Adam && kwargs.weight_decay != 0.0) {
      grads = decayed_gradients(group, std::move(grads), grad_scale);
      options.weight_decay = 0.0;
      options.grad_scale = 1.0;
    } else if (group.config.optimizer_name == OptimizerName::Adam) {
      options.weight_decay = 0.0;
    }
    adamw_(group.params, grads, group.exp_avgs, group.exp_avg_sqs, options);
  }
}

void Optimizer::zero_grad() {
  for (ParamGroup& group : groups_) {
    for (at::Tensor& parameter : group.params) parameter.mutable_grad() = at::Tensor();
  }
}

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> all;
  for (const ParamGroup& group : groups_) {
    for (at::Tensor& grad : gradients_of(group)) all.push_back(std::move(grad));
  }
  return all;
}

std::vector<Scalar> Optimizer::learning_rates(double lr_factor) const {
  std::vector<Scalar> rates;
  for (const ParamGroup& group : groups_) {
    const auto same_name = [&](const ParamGroup& other) {
      return other.config.optimizer_name == group.config.optimizer_name;
    };
    const auto before = std::count_if(groups_.data(), &group, same_name);
    const bool alone = std::ranges::count_if(groups_, same_name) == 1;
    const std::string_view name = name_of(group.config.optimizer_name);
    rates.emplace_back(alone ? format("lr/{}", name) : format("lr/{}/{}", name, before),
                       group.config.optimizer_kwargs.lr * lr_factor);
  }
  return rates;
}

std::vector<std::string> Optimizer::banner() const {
  std::vector<std::string> lines;
  for (const ParamGroup& group : groups_) {
    const OptimizerKwargs& kwargs = group.config.optimizer_kwargs;
    lines.push_back(
        format("Optimizer {} (model_part=0): {} params [{}] {'lr': {}, 'betas': ({}, {}), 'eps': {}, "
               "'weight_decay': {}}",
               name_of(group.config.optimizer_name), group.params.size(), group.config.pattern,
               python_repr(kwargs.lr), python_repr(kwargs.betas.at(0)), python_repr(kwargs.betas.at(1)),
               python_repr(kwargs.eps), python_repr(kwargs.weight_decay)));
  }
  return lines;
}

}  // namespace titan
