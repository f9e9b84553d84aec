#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "titan/models/common/model_config.h"

namespace titan {

/// Numbers of parameters, counted from the tree: nothing is allocated.
struct ModelSize {
  int64_t dense = 0;          ///< everything but routers and experts; a tied head counts once
  int64_t sparse = 0;         ///< routers, routed and shared experts
  int64_t active_sparse = 0;  ///< of these, what one token uses: routed experts count top_k / num_experts
  int64_t embedding = 0;      ///< the token table
  /// Parts with their parameters, in the order of the forward pass; they add up to total().
  std::vector<std::pair<std::string, int64_t>> components;

  int64_t total() const { return dense + sparse; }
  int64_t active() const { return dense + active_sparse; }
};

ModelSize model_size(const ModelConfig& model);

/// Floating-point operations of forward and backward per token, the reference's formula:
/// 6 N + 6 sum over layers (n_heads * 2 * head_dim) * seq_len, where N is the active parameters without the
/// token table (with tied weights, with it: it is the head). Attention counts as if nothing were masked.
int64_t flops_per_token(const ModelConfig& model, int64_t seq_len);

}  // namespace titan
