#pragma once

#include <ATen/core/Tensor.h>

// B batch, T queries, S keys (S >= T), N query heads, K key/value heads (N % K == 0), H head dimension.
namespace titan {

/// Index of the first key each query may see, int32 [B, T]: the start of its document. A document begins at t
/// = 0 and wherever positions[t] != positions[t-1] + 1.
at::Tensor first_keys(const at::Tensor& positions_BT);

/// Softmax attention: query t sees the keys in [first_key_BT[b, t], t + S - T]. Query head n reads key head
/// n / (N / K). scale multiplies q·k. float32 or bfloat16 storage, float32 inside; the result is [B, T, N, H]
/// in q's dtype. Works block by block and never makes a [T, S] tensor; blocks outside every query's range are
/// skipped. first_key_BT: int32 key indices (0 everywhere = plain causal; below 0 counts as 0). A query that
/// sees no key gives zeros. Strided views (a part of a KV cache) are taken as they are. Throws ValueError if
/// shapes or dtypes do not fit.
at::Tensor attention(const at::Tensor& q_BTNH, const at::Tensor& k_BSKH, const at::Tensor& v_BSKH,
                     const at::Tensor& first_key_BT, double scale);

}  // namespace titan
