#pragma once

#include <cstdint>

#include "titan/config/fields.h"

namespace titan {

/// y = x W^T (+ b). Weight [out_features, in_features]; starts from normal(0, init_std), the bias from zero.
struct LinearConfig {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = false;
  double init_std = 0.02;

  void describe(Fields& f) {
    f("in_features", in_features, "Size of the last dimension of the input");
    f("out_features", out_features, "Size of the last dimension of the output");
    f("bias", bias, "Add a bias");
    f("init_std", init_std, "Standard deviation of the normal distribution that fills the weight");
  }
};

}  // namespace titan
