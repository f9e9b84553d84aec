#pragma once

#include <array>
#include <cstdint>

#include "titan/config/fields.h"
#include "titan/models/common/rope_config.h"
#include "titan/nn/linear_config.h"
#include "titan/nn/rms_norm_config.h"

namespace titan {

/// The reference's attention implementations. Here all three name one mathematics; `mask` says who sees whom.
enum class AttnBackend { flex, sdpa, varlen };
template <>
inline constexpr auto names<AttnBackend> = std::to_array<Named<AttnBackend>>(
    {{"flex", AttnBackend::flex}, {"sdpa", AttnBackend::sdpa}, {"varlen", AttnBackend::varlen}});

/// Who attends to whom inside a packed row.
enum class AttnMask { document, causal };
template <>
inline constexpr auto names<AttnMask> =
    std::to_array<Named<AttnMask>>({{"document", AttnMask::document}, {"causal", AttnMask::causal}});

/// The three projections in front of attention.
struct QKVLinearConfig {
  Poly<LinearConfig> wq = {};
  Poly<LinearConfig> wk = {};
  Poly<LinearConfig> wv = {};

  void describe(Fields& f) {
    f("wq", wq, "Query projection, dim -> n_heads * head_dim");
    f("wk", wk, "Key projection, dim -> n_kv_heads * head_dim");
    f("wv", wv, "Value projection, dim -> n_kv_heads * head_dim");
  }
};

/// Grouped-query attention; query head h reads key/value head h / (n_heads / n_kv_heads).
struct AttentionConfig {
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  AttnBackend attn_backend = AttnBackend::flex;
  AttnMask mask = AttnMask::document;
  Poly<QKVLinearConfig> qkv_linear = {};
  Poly<LinearConfig> wo = {};
  Poly<RMSNormConfig> q_norm = {};
  Poly<RMSNormConfig> k_norm = {};
  Poly<RoPEConfig> rope = {};

  void describe(Fields& f) {
    f("n_heads", n_heads, "Query heads");
    f("n_kv_heads", n_kv_heads, "Key and value heads; divides n_heads");
    f("head_dim", head_dim, "Channels of a head");
    f("attn_backend", attn_backend, "The reference's implementation name; the result is the same here");
    f("mask", mask, "document: attention stays inside a document; causal: over the whole row");
    f("qkv_linear", qkv_linear, "Query, key and value projections");
    f("wo", wo, "Output projection, n_heads * head_dim -> dim");
    f("q_norm", q_norm, "Norm over head_dim of each query head; empty for none");
    f("k_norm", k_norm, "Norm over head_dim of each key head; empty for none");
    f("rope", rope, "Rotary position embedding");
  }
};

}  // namespace titan
