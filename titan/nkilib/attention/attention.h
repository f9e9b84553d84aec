#pragma once

#include <optional>
#include <tuple>

#include "titan/nki.h"

namespace titan::nkilib {

struct AttentionOptions {
  /// Multiplies q·k, above 0 and at most 1; 1 / sqrt(D) unless given.
  std::optional<double> scale = {};
  /// Query t sees the keys 0 .. t, otherwise all.
  bool causal = true;
  /// [B, S] int32: the first key that each query sees, the start of its document; causal only. Below 0 counts
  /// as 0, and past the query as the query itself.
  std::optional<nki::Tensor> first_key = {};
};

/// Softmax attention with grouped heads: q [B, S, Hq, D] on k and v [B, S, Hk, D], query head h reading key
/// head h / (Hq / Hk). Returns out [B, S, Hq, D] in q's dtype and lse [B, Hq, S] in float32, the logarithm of
/// each query's sum of exp(scale q·k). Heads stand as a projection leaves them and as titan's own attention
/// takes them, so that nothing is copied; views with gaps and in another order are taken too.
///
/// float32 or bfloat16, with statistics and sums in float32 and probabilities in q's dtype. S is a multiple
/// of 128 up to 8192 (a head's keys stay in SBUF), D at most 128. Cores take every other tile of 128 queries.
/// ValueError, before anything is computed, for what breaks the contract.
std::tuple<nki::Tensor, nki::Tensor> attention_forward(nki::Tensor q, nki::Tensor k, nki::Tensor v,
                                                       AttentionOptions options);

/// The forward pass's operands and results, and the gradient of `out`.
struct AttentionGradients {
  nki::Tensor out, lse, dout;
};

/// dq, dk and dv in the shapes and dtypes of q, k and v; dk and dv are summed in float32 over the query heads
/// that share a key head. Cores take every other key head, so that a single one leaves the second core idle.
std::tuple<nki::Tensor, nki::Tensor, nki::Tensor> attention_backward(nki::Tensor q, nki::Tensor k,
                                                                     nki::Tensor v, AttentionGradients of,
                                                                     AttentionOptions options);

}  // namespace titan::nkilib
