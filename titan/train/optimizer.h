#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "titan/nn/module.h"
#include "titan/train/optimizer_config.h"
#include "titan/train/tensorboard.h"

namespace titan {

/// The parameters one group updates, with their moments.
struct ParamGroup {
  ParamGroupConfig config;
  std::vector<at::Tensor> params, exp_avgs, exp_avg_sqs;
};

/// Adam and AdamW over groups of parameters. Gradients are read from the tensors' `grad()`.
class Optimizer {
 public:
  /// Gives each trainable parameter to the first group whose regular expression is found in its name.
  /// ConfigError for a bad expression, for a group left with no parameter and for a trainable parameter that
  /// no group takes. Frozen parameters get neither moments nor updates. The parameters must have their
  /// tensors.
  Optimizer(const OptimizerConfig& config, const std::vector<Module::NamedParameter>& parameters);

  /// One update: each group's learning rate is multiplied by `lr_factor`, each gradient by `grad_scale`.
  void step(double lr_factor, double grad_scale);

  /// Drops the gradients.
  void zero_grad();

  /// Gradients in a fixed order; undefined where backward reached no parameter.
  std::vector<at::Tensor> gradients() const;

  /// `lr/AdamW`, or `lr/AdamW/0` ... where several groups share a name: the rates of a step with `lr_factor`.
  std::vector<Scalar> learning_rates(double lr_factor) const;

  /// "Optimizer AdamW (model_part=0): 310 params [.*] {'lr': 0.0008, 'betas': (0.9, 0.95), ...}", a line a
  /// group.
  std::vector<std::string> banner() const;

  const std::vector<ParamGroup>& groups() const { return groups_; }

 private:
  std::vector<ParamGroup> groups_;
  int64_t num_steps_ = 0;
};

}  // namespace titan
