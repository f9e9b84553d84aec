#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

// B batch, T tokens, N query heads, K key heads, H head dimension, P = H / 2 rotated pairs.
namespace titan {

/// Inverse frequencies theta^(-2i/H), i < P, as float32 [P] on the CPU.
at::Tensor rope_inverse_frequencies(int64_t head_dim, double theta);

/// float32 [B, T, 2H]: cos of each angle in the first H entries (both halves alike), sin in the second H, for
/// positions_BT (int64 or int32) and inverse frequencies [P].
at::Tensor rope_cache(const at::Tensor& positions_BT, const at::Tensor& inverse_frequencies_P);

/// Rotary embedding in the rotate-half form: x_i·cos - x_{i+P}·sin and x_{i+P}·cos + x_i·sin, float32 inside.
/// cache_BT2H as from rope_cache; its B may be 1. Returns (q, k) rotated, in their dtypes.
std::pair<at::Tensor, at::Tensor> rope_cos_sin(const at::Tensor& q_BTNH, const at::Tensor& k_BTKH,
                                               const at::Tensor& cache_BT2H);

/// float32 [B, T, P, 2]: (cos, sin) of each angle, the real view of exp(i · angle).
at::Tensor rope_complex_cache(const at::Tensor& positions_BT, const at::Tensor& inverse_frequencies_P);

/// The same rotation as rope_cos_sin, bit for bit, written as multiplication of (x_i + i·x_{i+P}) by
/// cache_BTP2.
std::pair<at::Tensor, at::Tensor> rope_complex(const at::Tensor& q_BTNH, const at::Tensor& k_BTKH,
                                               const at::Tensor& cache_BTP2);

}  // namespace titan
