#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// AdamW decays weights beside the step; Adam adds the decay to the gradient (L2).
enum class OptimizerName { AdamW, Adam };
template <>
inline constexpr auto names<OptimizerName> =
    std::to_array<Named<OptimizerName>>({{"AdamW", OptimizerName::AdamW}, {"Adam", OptimizerName::Adam}});

/// One group's settings; names as torch.optim's.
struct OptimizerKwargs {
  double lr = 8e-4;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;

  void describe(Fields& f) {
    f("lr", lr, "Learning rate the schedule multiplies");
    f("betas", betas, "Decay of the first and second moment");
    f("eps", eps, "Added to the root of the second moment");
    f("weight_decay", weight_decay, "Weight decay");
  }
};

/// The parameters whose name the regular expression finds, and how they are updated.
struct ParamGroupConfig {
  std::string pattern = ".*";
  OptimizerName optimizer_name = OptimizerName::AdamW;
  OptimizerKwargs optimizer_kwargs = {};

  void describe(Fields& f) {
    f("pattern", pattern,
      "Regular expression searched in parameter names; the first group that matches wins");
    f("optimizer_name", optimizer_name, "AdamW or Adam");
    f("optimizer_kwargs", optimizer_kwargs, "Settings of the group");
  }
};

/// How the update is carried out. The first three give the same numbers here.
enum class OptimizerImplementation { for_loop, foreach, fused, fused_opt_states_bf16 };
template <>
inline constexpr auto names<OptimizerImplementation> = std::to_array<Named<OptimizerImplementation>>(
    {{"for-loop", OptimizerImplementation::for_loop},
     {"foreach", OptimizerImplementation::foreach},
     {"fused", OptimizerImplementation::fused},
     {"fused_opt_states_bf16", OptimizerImplementation::fused_opt_states_bf16}});

/// The optimizer: groups in order; every parameter must be covered and every pattern must match something.
struct OptimizerConfig {
  std::vector<ParamGroupConfig> param_groups = {};
  OptimizerImplementation implementation = OptimizerImplementation::fused;

  void describe(Fields& f) {
    f("param_groups", param_groups, "Groups of parameters with their settings");
    f("implementation", implementation,
      "for-loop, foreach and fused are one routine here; fused_opt_states_bf16 keeps the moments in "
      "bfloat16");
  }

  void validate() const;
};

/// One AdamW group over everything, as the reference's helper.
OptimizerConfig default_adamw(double lr = 8e-4);

}  // namespace titan
