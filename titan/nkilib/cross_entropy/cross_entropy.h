#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "titan/nki.h"

namespace titan::nkilib {

/// How much is in SBUF at once: `positions_per_batch` rows (1 to 128, one a partition) of `chunk_size`
/// columns (1 to V, 160 KiB of a partition at most).
struct CrossEntropyOptions {
  int64_t positions_per_batch = 32;
  int64_t chunk_size = 32768;
  /// Of loss and lse: float32 or bfloat16; the logits' own unless given. A bfloat16 lse is off by up to 2^-8
  /// of itself, and each probability of the backward pass by as much as e to that.
  std::optional<nki::Dtype> dtype = {};
};

/// loss[p] = lse[p] - logits[p, targets[p]] and lse[p] = log sum exp logits[p, :], of logits [P, V] in
/// float32 or bfloat16 and targets [P] int32. One pass over the logits (online softmax): exponentials in the
/// logits' dtype, a row's maximum and sum in float32. Cores take half of the rows each. ValueError, before
/// anything is computed, for what breaks the contract; KernelError for a target that is not in 0 .. V - 1.
std::tuple<nki::Tensor, nki::Tensor> cross_entropy_forward(nki::Tensor logits, nki::Tensor targets,
                                                           CrossEntropyOptions options);

enum class LossReduction : uint8_t { mean, sum };

struct CrossEntropyBackwardOptions {
  LossReduction reduction = LossReduction::mean;
  int64_t positions_per_batch = 32;
  int64_t chunk_size = 32768;
  /// Writes the gradient over the logits.
  bool inplace = true;
};

/// The gradient [P, V] of the losses' mean or sum: (exp(logits - lse) - onehot(targets)) / P, or without the
/// division, computed in float32 and rounded to the logits' dtype. KernelError for a target that is not in 0
/// .. V - 1: leave ignored positions out. `lse` [P] is the forward pass's, in either dtype. Returns `logits`
/// themselves, overwritten, unless options say otherwise.
nki::Tensor cross_entropy_backward(nki::Tensor logits, nki::Tensor targets, nki::Tensor lse,
                                   CrossEntropyBackwardOptions options);

}  // namespace titan::nkilib
