#include "titan/train/train_step.h"

#include <algorithm>
#include <cmath>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/ops/autograd.h"
#include "titan/train/phase.h"

namespace titan {

namespace {

at::Tensor forward(const Batch& batch, const LossFunction& loss, int64_t valid_tokens) {
  const Phase phase("forward");
  return loss(batch, static_cast<double>(valid_tokens));
}

void backward(const at::Tensor& share, FullyShardedModel* sharded) {
  const Phase phase("backward");
  titan::backward(share);
  if (sharded) sharded->finish_backward();
}

}  // namespace

// [Note: global token mean]
// A mean per micro-batch, averaged, gives a token in a short micro-batch more weight than one in a long
// micro-batch: lengths 1 and 9 with summed losses 2 and 90 would count 6.0 instead of 92 / 10 = 9.2. So all
// micro-batches are fetched first, their valid labels are counted over all ranks, and each sum is divided by
// that one number; gradients are then summed over ranks and divided by nothing.
RankLoss accumulate_gradients(std::span<const Batch> micro_batches, const LossFunction& loss,
                              int64_t valid_tokens, FullyShardedModel* sharded) {
  RankLoss result;
  int64_t own_tokens = 0;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    if (sharded) sharded->set_last_micro_batch(i + 1 == micro_batches.size());
    const at::Tensor share = forward(micro_batches[i], loss, valid_tokens);
    backward(share, sharded);
    result.share += share.item().toDouble();
    own_tokens += micro_batches[i].valid_tokens();
  }
  if (own_tokens > 0) {
    result.mean = result.share * static_cast<double>(valid_tokens) / static_cast<double>(own_tokens);
  }
  return result;
}

double clip_factor(double grad_norm, double max_norm) { return std::min(1.0, max_norm / (grad_norm + 1e-6)); }

void update(Optimizer& optimizer, const StepLoss& loss, double max_norm, double lr_factor, int64_t step) {
  constexpr const char* kAdvice =
      "The weights are still those before this step; lower the learning rate or raise "
      "lr_scheduler.warmup_steps.";
  if (!std::isfinite(loss.avg_loss)) {
    throw CommonError("Loss is not finite (global_avg_loss={}) at step {}. Stopping training. {}",
                      shortest(loss.avg_loss), step, kAdvice);
  }
  if (!std::isfinite(loss.grad_norm)) {
    throw CommonError("Gradient norm is not finite (grad_norm={}) at step {}. Stopping training. {}",
                      shortest(loss.grad_norm), step, kAdvice);
  }
  const Phase phase("optimizer");
  optimizer.step(lr_factor, clip_factor(loss.grad_norm, max_norm));
  optimizer.zero_grad();
}

}  // namespace titan
