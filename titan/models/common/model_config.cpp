#include "titan/models/common/model_config.h"

#include <algorithm>

#include "titan/base/error.h"

namespace titan {
namespace {

void require(bool holds, const std::string& field, const std::string& what) {
  if (!holds) throw ConfigError("model_spec.model.{}: {}", field, what);
}

void require_linear(const Poly<LinearConfig>& slot, const std::string& field, int64_t in, int64_t out) {
  require(bool(slot), field, "is empty; every layer needs it");
  require(slot->in_features == in && slot->out_features == out, field,
          format("maps {} -> {}, but the sizes around it ask for {} -> {}", slot->in_features,
                 slot->out_features, in, out));
}

void require_norm(const Poly<RMSNormConfig>& slot, const std::string& field, int64_t size) {
  require(bool(slot), field, "is empty; every layer needs it");
  require(slot->normalized_shape == size, field + ".normalized_shape",
          format("is {}, but it normalises {} channels", slot->normalized_shape, size));
  require(slot->eps > 0, field + ".eps", format("is {}; it must be positive", slot->eps));
}

void validate_attention(const AttentionConfig& attention, const std::string& field, int64_t dim) {
  const auto& a = attention;
  require(a.n_heads > 0, field + ".n_heads", format("is {}; it must be positive", a.n_heads));
  require(a.n_kv_heads > 0 && a.n_heads % a.n_kv_heads == 0, field + ".n_kv_heads",
          format("is {}; it must divide n_heads ({})", a.n_kv_heads, a.n_heads));
  require(a.head_dim > 0 && a.head_dim % 2 == 0, field + ".head_dim",
          format("is {}; it must be positive and even (RoPE turns pairs)", a.head_dim));
  require(bool(a.qkv_linear), field + ".qkv_linear", "is empty; attention needs it");
  require_linear(a.qkv_linear->wq, field + ".qkv_linear.wq", dim, a.n_heads * a.head_dim);
  require_linear(a.qkv_linear->wk, field + ".qkv_linear.wk", dim, a.n_kv_heads * a.head_dim);
  require_linear(a.qkv_linear->wv, field + ".qkv_linear.wv", dim, a.n_kv_heads * a.head_dim);
  require_linear(a.wo, field + ".wo", a.n_heads * a.head_dim, dim);
  if (a.q_norm) require_norm(a.q_norm, field + ".q_norm", a.head_dim);
  if (a.k_norm) require_norm(a.k_norm, field + ".k_norm", a.head_dim);
  require(bool(a.rope), field + ".rope", "is empty; attention needs it");
  require(a.rope->dim == a.head_dim, field + ".rope.dim",
          format("is {}, but head_dim is {}", a.rope->dim, a.head_dim));
  require(a.rope->theta > 0, field + ".rope.theta", format("is {}; it must be positive", a.rope->theta));
  require(a.rope->max_seq_len > 0, field + ".rope.max_seq_len",
          format("is {}; it must be positive", a.rope->max_seq_len));
}

void validate_feed_forward(const FeedForwardConfig& ffn, const std::string& field, int64_t dim) {
  require(bool(ffn.w1), field + ".w1", "is empty; a feed-forward needs it");
  const int64_t hidden = ffn.w1->out_features;
  require_linear(ffn.w1, field + ".w1", dim, hidden);
  require_linear(ffn.w3, field + ".w3", dim, hidden);
  require_linear(ffn.w2, field + ".w2", hidden, dim);
}

void validate_moe(const MoEConfig& moe, const std::string& field, int64_t dim) {
  require(bool(moe.router) && bool(moe.routed_experts) && bool(moe.routed_experts->inner_experts), field,
          "needs router and routed_experts.inner_experts");
  require_linear(moe.router->gate, field + ".router.gate", dim, moe.num_experts);
  const auto& experts = *moe.routed_experts->inner_experts;
  require(experts.num_experts == moe.num_experts && experts.dim == dim,
          field + ".routed_experts.inner_experts",
          format("holds {} experts of width {}, but the layer asks for {} of {}", experts.num_experts,
                 experts.dim, moe.num_experts, dim));
  require(moe.router->top_k > 0 && moe.router->top_k <= moe.num_experts, field + ".router.top_k",
          format("is {}; it must be 1 to {}", moe.router->top_k, moe.num_experts));
  if (moe.shared_experts) validate_feed_forward(*moe.shared_experts, field + ".shared_experts", dim);
}

}  // namespace

int64_t ModelConfig::max_seq_len() const {
  int64_t limit = 0;
  for (const auto& layer : layers) {
    if (!layer || !layer->attention || !layer->attention->rope) continue;
    const int64_t here = layer->attention->rope->max_seq_len;
    limit = limit == 0 ? here : std::min(limit, here);
  }
  return limit;
}

bool ModelConfig::has_moe() const {
  return std::any_of(layers.begin(), layers.end(), [](const auto& layer) { return layer && layer->moe; });
}

void ModelConfig::validate() const {
  require(vocab_size > 0, "vocab_size", format("is {}; it must be positive", vocab_size));
  require(dim > 0, "dim", format("is {}; it must be positive", dim));
  require(!layers.empty(), "layers", "is empty; a model needs at least one layer");
  require(bool(tok_embeddings), "tok_embeddings", "is empty; a model needs it");
  require(tok_embeddings->num_embeddings == vocab_size && tok_embeddings->embedding_dim == dim,
          "tok_embeddings",
          format("is a table of {} x {}, but vocab_size x dim is {} x {}", tok_embeddings->num_embeddings,
                 tok_embeddings->embedding_dim, vocab_size, dim));
  require_norm(norm, "norm", dim);
  require_linear(lm_head, "lm_head", dim, vocab_size);
  require(!lm_head->bias, "lm_head.bias", "is not built yet; set it to false");
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string field = format("layers.{}", i);
    require(bool(layers[i]), field, "is empty");
    const auto& layer = *layers[i];
    require_norm(layer.attention_norm, field + ".attention_norm", dim);
    require_norm(layer.ffn_norm, field + ".ffn_norm", dim);
    require(bool(layer.attention), field + ".attention", "is empty; every layer needs it");
    validate_attention(*layer.attention, field + ".attention", dim);
    require(bool(layer.feed_forward) != bool(layer.moe), field,
            "must hold exactly one of feed_forward and moe");
    if (layer.feed_forward) validate_feed_forward(*layer.feed_forward, field + ".feed_forward", dim);
    if (layer.moe) validate_moe(*layer.moe, field + ".moe", dim);
  }
}

}  // namespace titan
