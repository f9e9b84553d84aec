#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "titan/data/loader.h"
#include "titan/train/optimizer.h"

namespace titan {

/// Sum of cross-entropy over a micro-batch's valid labels, divided by `normalizer`: a scalar tensor with a
/// gradient.
using LossFunction = std::function<at::Tensor(const Batch& batch, double normalizer)>;

/// What forward and backward of one optimizer step gave.
struct StepLoss {
  double avg_loss = 0;       ///< mean over all valid tokens of all micro-batches
  int64_t valid_tokens = 0;  ///< labels that count
};

/// Runs forward and backward of every micro-batch, adding into the parameters' gradients. Each is divided by
/// the valid tokens of all of them, so that every token weighs the same whatever the micro-batches' lengths
/// ([Note: global token mean]). ValueError when no label counts.
StepLoss accumulate_gradients(std::span<const Batch> micro_batches, const LossFunction& loss);

/// Factor that brings a gradient of L2 norm `grad_norm` down to `max_norm`: min(1, max_norm / (grad_norm +
/// 1e-6)), as torch's clip_grad_norm_.
double clip_factor(double grad_norm, double max_norm);

/// ValueError unless both are finite: "Loss is not finite (global_avg_loss=nan) at step 7. Stopping
/// training."
void require_finite(double avg_loss, double grad_norm, int64_t step);

/// The optimizer's share of a step: norm, check, clip, update, in this order, so that a non-finite loss or
/// gradient leaves weights and moments as they were. Returns the norm before clipping; the gradients are
/// dropped.
double update(Optimizer& optimizer, double avg_loss, double max_norm, double lr_factor, int64_t step);

}  // namespace titan
