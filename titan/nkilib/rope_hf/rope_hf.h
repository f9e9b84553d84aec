#pragma once

#include <optional>
#include <tuple>

#include "titan/nki.h"

namespace titan::nkilib {

/// Either `cos` and `sin` [S, D] or [B, S, D], or `rope_cache` [S, 2D] or [B, S, 2D], cosines first.
struct RopeHfOptions {
  std::optional<nki::Tensor> cos = {}, sin = {}, rope_cache = {};
  /// Turns gradients back instead.
  bool backward = false;
};

/// Rotary position embedding in the layout of Hugging Face: q [B, Hq, S, D] and k [B, Hk, S, D] rotated into
/// q_out and k_out, which are returned and may be q and k themselves. x * cos + rotate_half(x) * sin, every
/// product and sum rounded to q's dtype. S is a multiple of 128 * cores; D is even and at most 1364 in
/// float32, 2728 in 16 bits, which is what fits into SBUF. ValueError, before anything is computed, for
/// shapes that break the contract. Rows of a cache past S are not read; without a batch dimension and with B
/// > 1 it has to have S rows, so that a flattened [B * S, 2D] is not taken for one.
std::tuple<nki::Tensor, nki::Tensor> rope_hf(nki::Tensor q, nki::Tensor k, nki::Tensor q_out,
                                             nki::Tensor k_out, RopeHfOptions options);

}  // namespace titan::nkilib
