#include "titan/models/common/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "titan/ops/autograd.h"
#include "titan/ops/linear.h"
#include "titan/ops/linear_cross_entropy.h"

namespace titan {

Decoder::Decoder(const ModelConfig& config)
    : tok_embeddings_(add_child<Embedding>("tok_embeddings", config.tok_embeddings)) {
  for (size_t i = 0; i < config.layers.size(); ++i) {
    layers_.push_back(add_child<TransformerBlock>(format("layers.{}", i), config.layers[i]));
  }
  norm_ = add_child<RMSNorm>("norm", config.norm);
  if (!config.enable_weight_tying) lm_head_ = add_child<Linear>("lm_head", config.lm_head);
}

at::Tensor Decoder::hidden(const TokenBatch& batch) const {
  SequenceContext context(batch.positions_BT);
  at::Tensor x_BTD = tok_embeddings_->forward(batch.input_ids_BT, compute_dtype_);
  for (const auto& layer : layers_) {
    const Attention& attention = layer->attention();
    x_BTD = layer->forward(x_BTD, context.layer(attention.rope(), attention.mask()), recompute_);
  }
  return norm_->forward(x_BTD);
}

at::Tensor Decoder::head(const at::Tensor& x_BTD) const {
  const at::Tensor logits =
      lm_head_ ? lm_head_->forward(x_BTD) : linear(x_BTD, tok_embeddings_->weight.value);
  return logits.to(at::kFloat);
}

at::Tensor Decoder::loss(const TokenBatch& batch, double normalizer) const {
  const at::Tensor x_BTD = hidden(batch);
  // The fused operator stands for a plain head only; one that a user put in its place runs as it is.
  if (!lm_head_ || (typeid(*lm_head_) == typeid(Linear) && !lm_head_->bias.value.defined())) {
    const Parameter& weight = lm_head_ ? lm_head_->weight : tok_embeddings_->weight;
    return linear_cross_entropy(x_BTD, weight.value, batch.labels_BT, normalizer);
  }
  const at::Tensor logits = head(x_BTD);
  return at::cross_entropy_loss(logits.flatten(0, 1), batch.labels_BT.flatten(), {}, at::Reduction::Sum,
                                kIgnoreLabel) /
         normalizer;
}

at::Tensor Decoder::logits(const TokenBatch& batch) const { return head(hidden(batch)); }

std::unique_ptr<KVCache> Decoder::make_cache(int64_t batch_size, int64_t capacity) const {
  const auto options = at::TensorOptions(tok_embeddings_->weight.value.device()).dtype(compute_dtype_);
  std::vector<LayerCache> layers;
  for (const auto& layer : layers_)
    layers.push_back(layer->attention().make_cache(batch_size, capacity, options));
  return std::make_unique<KVCache>(std::move(layers), capacity);
}

at::Tensor Decoder::next_logits(const at::Tensor& ids_BT, KVCache& cache) const {
  const NoGrad no_grad;
  const int64_t tokens = ids_BT.size(1);
  check(cache.length() + tokens <= cache.capacity(), "the new tokens fit into the KV cache");
  const at::Tensor positions_BT =
      at::arange(cache.length(), cache.length() + tokens, ids_BT.options()).expand_as(ids_BT);
  SequenceContext context(positions_BT);
  at::Tensor x_BTD = tok_embeddings_->forward(ids_BT, compute_dtype_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Attention& attention = layers_[i]->attention();
    x_BTD = layers_[i]->decode(x_BTD, context.layer(attention.rope(), AttnMask::causal),
                               {cache.layer(i), cache.length()});
  }
  cache.advance(tokens);
  return head(norm_->forward(x_BTD.narrow(1, tokens - 1, 1))).squeeze(1);
}

std::shared_ptr<LanguageModel> build_model(const Poly<ModelConfig>& model) {
  auto built = std::dynamic_pointer_cast<LanguageModel>(model.build());
  if (!built)
    throw ConfigError("model_spec.model: {} builds no language model", type_name(*model.node().type));
  return built;
}

}  // namespace titan
