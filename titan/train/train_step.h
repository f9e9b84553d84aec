#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "titan/data/loader.h"
#include "titan/distributed/fsdp.h"
#include "titan/train/agreement.h"
#include "titan/train/optimizer.h"

namespace titan {

/// Sum of cross-entropy over a micro-batch's valid labels, divided by `normalizer`: a scalar tensor with a
/// gradient.
using LossFunction = std::function<at::Tensor(const Batch& batch, double normalizer)>;

/// Runs forward and backward of every micro-batch of this rank, adding into the shards' gradients. Each is
/// divided by `valid_tokens`, the labels that count in the whole global batch, so that every token weighs the
/// same whatever the lengths of micro-batches and ranks ([Note: global token mean]). `sharded` is the model's
/// FSDP, or nullptr.
RankLoss accumulate_gradients(std::span<const Batch> micro_batches, const LossFunction& loss,
                              int64_t valid_tokens, FullyShardedModel* sharded);

/// Factor that brings a gradient of L2 norm `grad_norm` down to `max_norm`: min(1, max_norm / (grad_norm +
/// 1e-6)), as torch's clip_grad_norm_.
double clip_factor(double grad_norm, double max_norm);

/// The optimizer's share of a step: check, clip, update, in this order, so that a loss or gradient that is
/// not finite leaves weights and moments as they were; then the gradients are dropped. CommonError with the
/// reference's text: "Loss is not finite (global_avg_loss=nan) at step 7. Stopping training."
void update(Optimizer& optimizer, const StepLoss& loss, double max_norm, double lr_factor, int64_t step);

}  // namespace titan
