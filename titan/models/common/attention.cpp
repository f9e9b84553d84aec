#include "titan/models/common/attention.h"

#include <ATen/ops/zeros.h>

#include <cmath>

#include "titan/ops/attention.h"

namespace titan {

QKVLinear::QKVLinear(const QKVLinearConfig& config)
    : wq(add_child<Linear>("wq", config.wq)),
      wk(add_child<Linear>("wk", config.wk)),
      wv(add_child<Linear>("wv", config.wv)) {}

Attention::Attention(const AttentionConfig& config)
    : config_(config),
      qkv_linear_(add_child<QKVLinear>("qkv_linear", config.qkv_linear)),
      wo_(add_child<Linear>("wo", config.wo)),
      q_norm_(add_child<RMSNorm>("q_norm", config.q_norm)),
      k_norm_(add_child<RMSNorm>("k_norm", config.k_norm)),
      rope_(add_child<RoPE>("rope", config.rope)) {}

Heads Attention::project(const at::Tensor& x_BTD, const LayerContext& context) const {
  // -1 heads: under tensor parallelism a projection gives this rank's share.
  const auto split = [&](const at::Tensor& y) {
    return y.view({x_BTD.size(0), x_BTD.size(1), -1, config_.head_dim});
  };
  at::Tensor q_BTNH = split(qkv_linear_->wq->forward(x_BTD));
  at::Tensor k_BTKH = split(qkv_linear_->wk->forward(x_BTD));
  const at::Tensor v_BTKH = split(qkv_linear_->wv->forward(x_BTD));
  if (q_norm_) q_BTNH = q_norm_->forward(q_BTNH);
  if (k_norm_) k_BTKH = k_norm_->forward(k_BTKH);
  std::tie(q_BTNH, k_BTKH) = rope_->apply_rotary_emb(q_BTNH, k_BTKH, context.rope_cache);
  return {q_BTNH, k_BTKH, v_BTKH};
}

at::Tensor Attention::attend(const Heads& heads, const LayerContext& context, const CacheSlot* slot) const {
  const int64_t tokens = heads.q_BTNH.size(1);
  at::Tensor k_BSKH = heads.k_BTKH, v_BSKH = heads.v_BTKH;
  if (slot) {
    slot->cache.k_BSKH.narrow(1, slot->length, tokens).copy_(k_BSKH);
    slot->cache.v_BSKH.narrow(1, slot->length, tokens).copy_(v_BSKH);
    k_BSKH = slot->cache.k_BSKH.narrow(1, 0, slot->length + tokens);
    v_BSKH = slot->cache.v_BSKH.narrow(1, 0, slot->length + tokens);
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  return attention(heads.q_BTNH, k_BSKH, v_BSKH, context.first_key_BT, scale).flatten(2);
}

at::Tensor Attention::output(const at::Tensor& attended) const { return wo_->forward(attended); }

LayerCache Attention::make_cache(int64_t batch_size, int64_t capacity, at::TensorOptions options) const {
  const std::vector<int64_t> shape{batch_size, capacity, config_.n_kv_heads, config_.head_dim};
  return {at::zeros(shape, options), at::zeros(shape, options)};
}

template <>
ModulePtr build(const QKVLinearConfig& config) {
  return std::make_shared<QKVLinear>(config);
}

template <>
ModulePtr build(const AttentionConfig& config) {
  return std::make_shared<Attention>(config);
}

}  // namespace titan
