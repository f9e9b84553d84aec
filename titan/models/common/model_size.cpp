#include "titan/models/common/model_size.h"

#include <algorithm>

namespace titan {
namespace {

int64_t count(const Poly<LinearConfig>& slot) {
  return slot ? slot->in_features * slot->out_features + (slot->bias ? slot->out_features : 0) : 0;
}

int64_t count(const Poly<RMSNormConfig>& slot) { return slot ? slot->normalized_shape : 0; }

int64_t count(const Poly<FeedForwardConfig>& slot) {
  return slot ? count(slot->w1) + count(slot->w2) + count(slot->w3) : 0;
}

int64_t count_experts(const MoEConfig& moe) {
  const auto& experts = *moe.routed_experts->inner_experts;
  return 3 * experts.num_experts * experts.dim * experts.hidden_dim;
}

}  // namespace

ModelSize model_size(const ModelConfig& model) {
  int64_t attention = 0, feed_forward = 0, router = 0, experts = 0, shared = 0, norms = count(model.norm);
  int64_t top_k = 0, num_experts = 1;
  for (const auto& layer : model.layers) {
    norms += count(layer->attention_norm) + count(layer->ffn_norm);
    norms += count(layer->attention->q_norm) + count(layer->attention->k_norm);
    const auto& qkv = *layer->attention->qkv_linear;
    attention += count(qkv.wq) + count(qkv.wk) + count(qkv.wv) + count(layer->attention->wo);
    feed_forward += count(layer->feed_forward);
    if (!layer->moe) continue;
    router += count(layer->moe->router->gate);
    experts += count_experts(*layer->moe);
    shared += count(layer->moe->shared_experts);
    if (top_k == 0) top_k = layer->moe->router->top_k, num_experts = layer->moe->num_experts;
  }
  const int64_t embedding = model.tok_embeddings->num_embeddings * model.tok_embeddings->embedding_dim;
  const int64_t head = model.enable_weight_tying ? 0 : count(model.lm_head);

  ModelSize size;
  size.embedding = embedding;
  size.dense = embedding + attention + feed_forward + norms + head;
  size.sparse = router + experts + shared;
  // The reference divides the sum of all layers' experts, by the first layer's numbers.
  size.active_sparse = router + shared + experts * top_k / num_experts;
  size.components = {{"embedding", embedding},
                     {"attention", attention},
                     {"feed_forward", feed_forward},
                     {"router", router},
                     {"experts", experts},
                     {"shared_experts", shared},
                     {"norms", norms},
                     {"head", head}};
  std::erase_if(size.components, [](const auto& part) { return part.second == 0; });
  return size;
}

int64_t flops_per_token(const ModelConfig& model, int64_t seq_len) {
  const ModelSize size = model_size(model);
  const int64_t matmul = size.active() - (model.enable_weight_tying ? 0 : size.embedding);
  int64_t attention = 0;
  for (const auto& layer : model.layers)
    attention += layer->attention->n_heads * 2 * layer->attention->head_dim;
  return 6 * matmul + 6 * attention * seq_len;
}

}  // namespace titan
