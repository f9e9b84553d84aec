#pragma once

#include <cstdint>

#include "titan/config/fields.h"

namespace titan {

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension, in fp32 inside; the weight starts from one.
struct RMSNormConfig {
  int64_t normalized_shape = 0;
  double eps = 1e-6;

  void describe(Fields& f) {
    f("normalized_shape", normalized_shape, "Size of the last dimension");
    f("eps", eps, "Added to the mean square before the root");
  }
};

}  // namespace titan
