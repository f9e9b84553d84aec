#pragma once

#include <cstdint>

#include "titan/train/lr_scheduler_config.h"

namespace titan {

/// The learning rate's course as a multiplier of each group's own rate: linear warm-up, a stable stretch,
/// decay (warmup-stable-decay of torchtitan's `lr_scheduler.py`). Stateless: a resumed run asks for its own
/// step.
class LrScheduler {
 public:
  /// The curve spans `config.total_steps`, or `training_steps` where that is none. Phases that do not fit
  /// into the total are shortened with a warning.
  LrScheduler(const LrSchedulerConfig& config, int64_t training_steps);

  /// Multiplier of the optimizer step with the 0-based index `index`. Past the end of the curve its last
  /// value stays.
  double factor(int64_t index) const;

  int64_t warmup_steps() const { return warmup_; }
  int64_t stable_steps() const {
    return stable_;
  }  ///< counts one virtual step, so that the last real one is not 0
  int64_t decay_steps() const { return decay_; }

 private:
  int64_t warmup_, stable_, decay_;
  DecayType decay_type_;
  double min_factor_;
};

}  // namespace titan
