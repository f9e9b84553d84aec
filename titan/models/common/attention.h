#pragma once

#include "titan/models/common/attention_config.h"
#include "titan/models/common/kv_cache.h"
#include "titan/models/common/rope.h"
#include "titan/models/common/sequence_context.h"
#include "titan/nn/linear.h"
#include "titan/nn/rms_norm.h"

// B batch, T tokens, S keys, D dim, N query heads, K key heads, H head_dim.
namespace titan {

/// The three projections in front of attention.
class QKVLinear : public Module {
 public:
  explicit QKVLinear(const QKVLinearConfig& config);

  std::shared_ptr<Linear> wq, wk, wv;
};

/// Queries, keys and values by heads.
struct Heads {
  at::Tensor q_BTNH;
  at::Tensor k_BTKH;
  at::Tensor v_BTKH;
};

/// Where the new keys go in a layer's cache.
struct CacheSlot {
  LayerCache& cache;
  int64_t length;  ///< tokens already in it
};

/// Grouped-query attention (Ainslie et al. 2023) with optional norms on queries and keys, in three stages, so
/// that activation checkpointing can keep what lies between them.
class Attention : public Module {
 public:
  explicit Attention(const AttentionConfig& config);

  /// Projected, normed and rotated heads of x [B, T, D].
  virtual Heads project(const at::Tensor& x_BTD, const LayerContext& context) const;
  /// Attention itself: [B, T, N·H]. With a cache, the keys and values are appended to it first.
  virtual at::Tensor attend(const Heads& heads, const LayerContext& context, const CacheSlot* slot) const;
  /// The output projection, back to [B, T, D].
  virtual at::Tensor output(const at::Tensor& attended) const;

  const RoPE& rope() const { return *rope_; }
  AttnMask mask() const { return config_.mask; }
  LayerCache make_cache(int64_t batch_size, int64_t capacity, at::TensorOptions options) const;

 protected:
  AttentionConfig config_;
  std::shared_ptr<QKVLinear> qkv_linear_;
  std::shared_ptr<Linear> wo_;
  std::shared_ptr<RMSNorm> q_norm_, k_norm_;  ///< null where the config has none
  std::shared_ptr<RoPE> rope_;
};

}  // namespace titan
