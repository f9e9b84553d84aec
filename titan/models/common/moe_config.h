#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "titan/config/fields.h"
#include "titan/models/common/feed_forward_config.h"
#include "titan/nn/linear_config.h"

namespace titan {

/// How a router turns its gate's outputs into scores.
enum class ScoreFunc { softmax, sigmoid };
template <>
inline constexpr auto names<ScoreFunc> =
    std::to_array<Named<ScoreFunc>>({{"softmax", ScoreFunc::softmax}, {"sigmoid", ScoreFunc::sigmoid}});

/// Chooses top_k of num_experts experts for each token.
struct RouterConfig {
  int64_t num_experts = 0;
  int64_t top_k = 1;
  ScoreFunc score_func = ScoreFunc::sigmoid;
  bool route_norm = false;
  double route_scale = 1.0;
  Poly<LinearConfig> gate = {};

  void describe(Fields& f) {
    f("num_experts", num_experts, "Experts to choose from");
    f("top_k", top_k, "Experts a token is sent to");
    f("score_func", score_func, "From gate outputs to scores");
    f("route_norm", route_norm, "Divide the chosen scores by their sum");
    f("route_scale", route_scale, "Factor on the chosen scores");
    f("gate", gate, "Projection dim -> num_experts");
  }
};

/// num_experts SwiGLU feed-forwards in three tensors: w1_EFD, w3_EFD [E, hidden_dim, dim], w2_EDF.
struct GroupedExpertsConfig {
  int64_t dim = 0;
  int64_t hidden_dim = 0;
  int64_t num_experts = 0;
  double init_std = 0.02;
  double output_init_std = 0.02;

  void describe(Fields& f) {
    f("dim", dim, "Size of a token's vector");
    f("hidden_dim", hidden_dim, "Hidden size of one expert");
    f("num_experts", num_experts, "Number of experts");
    f("init_std", init_std, "Standard deviation that fills w1 and w3");
    f("output_init_std", output_init_std, "Standard deviation that fills w2");
  }
};

/// The experts behind a router.
struct RoutedExpertsConfig {
  Poly<GroupedExpertsConfig> inner_experts = {};

  void describe(Fields& f) { f("inner_experts", inner_experts, "The experts' weights"); }
};

/// A mixture of experts in the place of a feed-forward.
struct MoEConfig {
  int64_t num_experts = 8;
  std::optional<double> load_balance_coeff = 1e-3;
  Poly<RouterConfig> router = {};
  Poly<RoutedExpertsConfig> routed_experts = {};
  Poly<FeedForwardConfig> shared_experts = {};

  void describe(Fields& f) {
    f("num_experts", num_experts, "Number of routed experts");
    f("load_balance_coeff", load_balance_coeff, "Step of the loss-free balancing bias; none turns it off");
    f("router", router, "Chooses experts");
    f("routed_experts", routed_experts, "The experts a router chooses from");
    f("shared_experts", shared_experts, "A feed-forward every token passes; empty for none");
  }
};

}  // namespace titan
