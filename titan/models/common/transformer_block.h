#pragma once

#include "titan/models/common/attention.h"
#include "titan/models/common/block_config.h"
#include "titan/models/common/feed_forward.h"
#include "titan/models/common/language_model.h"

// B batch, T tokens, D dim.
namespace titan {

/// One pre-norm layer: h = x + attention(attention_norm(x)); h + feed_forward(ffn_norm(h)). A derived class
/// of other mathematics has its own forward and its own decode.
class TransformerBlock : public Module {
 public:
  explicit TransformerBlock(const TransformerBlockConfig& config);

  /// x [B, T, D] -> [B, T, D].
  virtual at::Tensor forward(const at::Tensor& x_BTD, const LayerContext& context, Recompute recompute) const;
  /// The same without gradients, for tokens that continue a cached sequence.
  virtual at::Tensor decode(const at::Tensor& x_BTD, const LayerContext& context,
                            const CacheSlot& slot) const;

  const Attention& attention() const { return *attention_; }

 protected:
  // The stages of attention and feed-forward with the changes of layout around them.
  Heads project(const at::Tensor& normed, const LayerContext& context) const;
  at::Tensor attend(const Heads& heads, const LayerContext& context, const CacheSlot* slot) const;
  at::Tensor hidden(const at::Tensor& normed) const;
  at::Tensor output(const at::Tensor& hidden) const;

  std::shared_ptr<RMSNorm> attention_norm_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<RMSNorm> ffn_norm_;
  std::shared_ptr<FeedForward> feed_forward_;

 private:
  at::Tensor run(const at::Tensor& x_BTD, const LayerContext& context, const CacheSlot* slot) const;
  at::Tensor run_in_segments(const at::Tensor& x_BTD, const LayerContext& context) const;
};

}  // namespace titan
