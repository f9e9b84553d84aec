#pragma once

#include <cstdint>

#include "titan/config/fields.h"

namespace titan {

/// What every rotary position embedding shares. Channel i of a half turns by position / theta^(2i/dim).
struct RoPEConfig {
  int64_t dim = 0;
  int64_t max_seq_len = 0;
  double theta = 10000.0;

  void describe(Fields& f) {
    f("dim", dim, "Channels of a head");
    f("max_seq_len", max_seq_len, "Positions the model is made for; a longer seq_len is an error");
    f("theta", theta, "Rotary base");
  }
};

/// Rotates (first half, second half) pairs by a cache [max_seq_len, 2*dim]: cos, then sin.
struct CosSinRoPEConfig : RoPEConfig {
  void describe(Fields& f) { f.base<RoPEConfig>(*this); }
};

/// The same rotation through complex numbers: a cache [max_seq_len, dim/2] of unit phasors.
struct ComplexRoPEConfig : RoPEConfig {
  void describe(Fields& f) { f.base<RoPEConfig>(*this); }
};

}  // namespace titan
