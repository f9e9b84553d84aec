#pragma once

#include "titan/config/fields.h"
#include "titan/nn/linear_config.h"

namespace titan {

/// SwiGLU: w2(silu(w1 x) * w3 x).
struct FeedForwardConfig {
  Poly<LinearConfig> w1;
  Poly<LinearConfig> w2;
  Poly<LinearConfig> w3;

  void describe(Fields& f) {
    f("w1", w1, "Gate projection, dim -> hidden_dim");
    f("w2", w2, "Down projection, hidden_dim -> dim");
    f("w3", w3, "Up projection, dim -> hidden_dim");
  }
};

}  // namespace titan
