#include "titan/models/common/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "titan/models/common/sharding.h"
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
  at::Tensor x_BTD = tok_embeddings_->stage.run(
      [&] { return tok_embeddings_->leave(tok_embeddings_->forward(batch.input_ids_BT, compute_dtype_)); });
  for (const auto& layer : layers_) {
    const LayerContext at_layer = context.layer(layer->attention().rope(), layer->attention().mask());
    x_BTD = layer->stage.run([&] { return layer->forward(x_BTD, at_layer, recompute_); });
  }
  return x_BTD;
}

at::Tensor Decoder::head_input(const at::Tensor& x_BTD) const { return norm_->leave(norm_->forward(x_BTD)); }

at::Tensor Decoder::head(const at::Tensor& x_BTD) const {
  const at::Tensor normed_BTD = head_input(x_BTD);
  const Parameter& weight = lm_head_ ? lm_head_->weight : tok_embeddings_->weight;
  const at::Tensor logits = lm_head_ ? lm_head_->forward(normed_BTD) : linear(normed_BTD, weight.value);
  return gather_columns(logits.to(at::kFloat), weight.shape[0], tensor_axis_);
}

at::Tensor Decoder::head_loss(const at::Tensor& x_BTD, const at::Tensor& labels_BT, double normalizer) const {
  // The fused operator stands for a plain head only; one that a user put in its place runs as it is.
  if (!lm_head_ || (typeid(*lm_head_) == typeid(Linear) && !lm_head_->bias.value.defined())) {
    const Parameter& weight = lm_head_ ? lm_head_->weight : tok_embeddings_->weight;
    const VocabularyRows rows{weight.value_block.offset[0], weight.shape[0]};
    return linear_cross_entropy(head_input(x_BTD), weight.value, labels_BT, normalizer,
                                {.rows = rows, .axis = tensor_axis_});
  }
  const at::Tensor logits = head(x_BTD);
  return at::cross_entropy_loss(logits.flatten(0, 1), labels_BT.flatten(), {}, at::Reduction::Sum,
                                kIgnoreLabel) /
         normalizer;
}

at::Tensor Decoder::loss(const TokenBatch& batch, double normalizer) const {
  const at::Tensor x_BTD = hidden(batch);
  return norm_->stage.run([&] { return head_loss(x_BTD, batch.labels_BT, normalizer); });
}

at::Tensor Decoder::logits(const TokenBatch& batch) const {
  const at::Tensor x_BTD = hidden(batch);
  return norm_->stage.run([&] { return head(x_BTD); });
}

ShardingSpec Decoder::tensor_sharding(bool sequence_parallel) const {
  return decoder_sharding(*this, sequence_parallel);
}

std::vector<ShardingUnit> Decoder::sharding_units() {
  std::vector<ShardingUnit> units = {{"tok_embeddings", {tok_embeddings_.get()}, {&tok_embeddings_->stage}}};
  for (size_t i = 0; i < layers_.size(); ++i) {
    units.push_back({format("layers.{}", i), {layers_[i].get()}, {&layers_[i]->stage}});
  }
  if (lm_head_) {
    units.push_back({"norm, lm_head", {norm_.get(), lm_head_.get()}, {&norm_->stage}});
  } else {
    // The table is also the head: one unit, used at both ends.
    units.front() = {"tok_embeddings, norm",
                     {tok_embeddings_.get(), norm_.get()},
                     {&tok_embeddings_->stage, &norm_->stage}};
  }
  return units;
}

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
  return head(x_BTD.narrow(1, tokens - 1, 1)).squeeze(1);
}

std::shared_ptr<LanguageModel> build_model(const Poly<ModelConfig>& model) {
  auto built = std::dynamic_pointer_cast<LanguageModel>(model.build());
  if (!built)
    throw ConfigError("model_spec.model: {} builds no language model", type_name(*model.node().type));
  return built;
}

}  // namespace titan
