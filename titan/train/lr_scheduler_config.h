#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "titan/config/fields.h"

namespace titan {

/// Shape of the decay phase.
enum class DecayType { linear, sqrt, cosine };
template <>
inline constexpr auto names<DecayType> = std::to_array<Named<DecayType>>(
    {{"linear", DecayType::linear}, {"sqrt", DecayType::sqrt}, {"cosine", DecayType::cosine}});

/// Warm-up, a stable phase, and decay (WSD).
struct LrSchedulerConfig {
  int64_t warmup_steps = 200;
  std::optional<int64_t> total_steps = {};
  std::optional<double> decay_ratio = {};
  DecayType decay_type = DecayType::linear;
  double min_lr_factor = 0.0;

  void describe(Fields& f) {
    f("warmup_steps", warmup_steps, "Steps of linear warm-up");
    f("total_steps", total_steps, "Steps the curve is made for; none: training.steps");
    f("decay_ratio", decay_ratio, "Share of the steps that decays at the end; none: decay after warm-up");
    f("decay_type", decay_type, "Curve of the decay");
    f("min_lr_factor", min_lr_factor, "Factor the decay ends at");
  }

  void validate() const;
};

}  // namespace titan
