#pragma once

#include "titan/models/common/language_model.h"
#include "titan/models/common/sequence_context.h"
#include "titan/models/common/transformer_block.h"
#include "titan/nn/embedding.h"

// B batch, T tokens, D dim, V vocabulary.
namespace titan {

/// Embedding, layers, final norm, head. A model family derives from it and gives its Hugging Face names.
class Decoder : public LanguageModel {
 public:
  explicit Decoder(const ModelConfig& config);

  at::Tensor loss(const TokenBatch& batch, double normalizer) const override;
  at::Tensor logits(const TokenBatch& batch) const override;
  std::unique_ptr<KVCache> make_cache(int64_t batch_size, int64_t capacity) const override;
  at::Tensor next_logits(const at::Tensor& ids_BT, KVCache& cache) const override;
  std::vector<ShardingUnit> sharding_units() override;
  ShardingSpec tensor_sharding(bool sequence_parallel) const override;
  void set_tensor_axis(TensorAxis axis) override { tensor_axis_ = std::move(axis); }
  void set_compute_dtype(at::ScalarType dtype) override { compute_dtype_ = dtype; }
  void set_recompute(Recompute recompute) override { recompute_ = recompute; }

 private:
  /// The output of the last layer.
  at::Tensor hidden(const TokenBatch& batch) const;
  /// Final norm and head: float32 logits.
  at::Tensor head(const at::Tensor& x_BTD) const;
  at::Tensor head_loss(const at::Tensor& x_BTD, const at::Tensor& labels_BT, double normalizer) const;

  /// The final norm of x, as the head takes it: all tokens on every rank.
  at::Tensor head_input(const at::Tensor& x_BTD) const;

  TensorAxis tensor_axis_;
  at::ScalarType compute_dtype_ = at::kFloat;
  Recompute recompute_ = Recompute::none;
  std::shared_ptr<Embedding> tok_embeddings_;
  std::vector<std::shared_ptr<TransformerBlock>> layers_;
  std::shared_ptr<RMSNorm> norm_;
  std::shared_ptr<Linear> lm_head_;  ///< null when the head uses the embedding's table
};

}  // namespace titan
