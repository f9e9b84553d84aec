#include "titan/train/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "titan/base/error.h"
#include "titan/base/log.h"

namespace titan {
namespace {

double decayed(DecayType type, double progress) {
  switch (type) {
    case DecayType::linear:
      return 1.0 - progress;
    case DecayType::sqrt:
      return 1.0 - std::sqrt(progress);
    case DecayType::cosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  }
  check(false, "every decay type has a formula");
  return 0.0;
}

}  // namespace

LrScheduler::LrScheduler(const LrSchedulerConfig& config, int64_t training_steps)
    : decay_type_(config.decay_type), min_factor_(config.min_lr_factor) {
  const int64_t total = config.total_steps.value_or(training_steps);
  warmup_ = config.warmup_steps;
  if (warmup_ > total) {
    log_warning("Warmup steps ({}) exceed total training steps ({}). Adjusting warmup steps to {}.", warmup_,
                total, total);
    warmup_ = total;
  }
  decay_ = total - warmup_;
  if (config.decay_ratio) {
    // nearbyint rounds halves to even, as Python's round.
    const auto wanted =
        static_cast<int64_t>(std::nearbyint(static_cast<double>(total) * *config.decay_ratio));
    if (wanted > decay_) {
      log_warning(
          "Warmup ({}) + decay ({}) steps exceed total training steps ({}). Adjusting decay steps to {}.",
          warmup_, wanted, total, decay_);
    }
    decay_ = std::min(wanted, decay_);
  }
  stable_ = total + 1 - warmup_ - decay_;
}

double LrScheduler::factor(int64_t index) const {
  check(index >= 0, "optimizer steps count from 0");
  if (index < warmup_) return static_cast<double>(index + 1) / static_cast<double>(warmup_);
  const int64_t into_decay = index + 1 - warmup_ - stable_;
  if (into_decay <= 0 || decay_ == 0) return 1.0;
  const double progress = std::min(1.0, static_cast<double>(into_decay) / static_cast<double>(decay_));
  return min_factor_ + (1.0 - min_factor_) * decayed(decay_type_, progress);
}

}  // namespace titan
