#include "titan/train/train_step.h"

#include <algorithm>
#include <cmath>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/ops/adamw.h"
#include "titan/ops/autograd.h"

namespace titan {

// [Note: global token mean]
// A mean per micro-batch, averaged, gives a token in a short micro-batch more weight than one in a long
// micro-batch: lengths 1 and 9 with summed losses 2 and 90 would count 6.0 instead of 92 / 10 = 9.2. So all
// micro-batches are fetched first, their valid labels are counted, and each sum is divided by that one
// number.
StepLoss accumulate_gradients(std::span<const Batch> micro_batches, const LossFunction& loss) {
  StepLoss result;
  for (const Batch& batch : micro_batches) result.valid_tokens += batch.valid_tokens();
  if (result.valid_tokens == 0) {
    throw ValueError(
        "no label of the {} micro-batches of this step counts (all are -100); check the data set",
        micro_batches.size());
  }
  for (const Batch& batch : micro_batches) {
    const at::Tensor share = loss(batch, static_cast<double>(result.valid_tokens));
    backward(share);
    result.avg_loss += share.item().toDouble();
  }
  return result;
}

double clip_factor(double grad_norm, double max_norm) { return std::min(1.0, max_norm / (grad_norm + 1e-6)); }

void require_finite(double avg_loss, double grad_norm, int64_t step) {
  constexpr const char* kAdvice =
      "The weights are still those before this step; lower the learning rate or raise "
      "lr_scheduler.warmup_steps.";
  if (!std::isfinite(avg_loss)) {
    throw ValueError("Loss is not finite (global_avg_loss={}) at step {}. Stopping training. {}",
                     shortest(avg_loss), step, kAdvice);
  }
  if (!std::isfinite(grad_norm)) {
    throw ValueError("Gradient norm is not finite (grad_norm={}) at step {}. Stopping training. {}",
                     shortest(grad_norm), step, kAdvice);
  }
}

double update(Optimizer& optimizer, double avg_loss, double max_norm, double lr_factor, int64_t step) {
  const double norm = grad_norm(optimizer.gradients()).item().toDouble();
  require_finite(avg_loss, norm, step);
  optimizer.step(lr_factor, clip_factor(norm, max_norm));
  optimizer.zero_grad();
  return norm;
}

}  // namespace titan
