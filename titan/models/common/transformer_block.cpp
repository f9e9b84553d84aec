#include "titan/models/common/transformer_block.h"

#include <ATen/TensorOperators.h>

#include "titan/ops/checkpoint.h"

namespace titan {

TransformerBlock::TransformerBlock(const TransformerBlockConfig& config)
    : attention_norm_(add_child<RMSNorm>("attention_norm", config.attention_norm)),
      attention_(add_child<Attention>("attention", config.attention)),
      ffn_norm_(add_child<RMSNorm>("ffn_norm", config.ffn_norm)),
      feed_forward_(add_child<FeedForward>("feed_forward", config.feed_forward)) {
  if (!feed_forward_) throw ConfigError("mixtures of experts are not built yet; choose a dense flavor");
}

at::Tensor TransformerBlock::forward(const at::Tensor& x_BTD, const LayerContext& context,
                                     Recompute recompute) const {
  switch (recompute) {
    case Recompute::none:
      return run(x_BTD, context, nullptr);
    case Recompute::selective:
      return run_in_segments(x_BTD, context);
    case Recompute::full:
      break;
  }
  return checkpoint(
      "TransformerBlock",
      [this, context](const std::vector<at::Tensor>& in) { return run(in[0], context, nullptr); }, {x_BTD});
}

at::Tensor TransformerBlock::decode(const at::Tensor& x_BTD, const LayerContext& context,
                                    const CacheSlot& slot) const {
  return run(x_BTD, context, &slot);
}

at::Tensor TransformerBlock::run(const at::Tensor& x_BTD, const LayerContext& context,
                                 const CacheSlot* slot) const {
  const Heads heads = attention_->project(attention_norm_->forward(x_BTD), context);
  const at::Tensor attended = attention_->output(attention_->attend(heads, context, slot));
  const auto [h_BTD, normed] = ffn_norm_->add_and_norm(x_BTD, attended);
  return h_BTD + feed_forward_->output(feed_forward_->hidden(normed));
}

// Between the segments lie what attention needs (its operands and output) and the input of the wide matmul
// w2; the segments themselves (norms, RoPE, SwiGLU and the matmuls w1, w3, wq, wk, wv) run again in the
// backward.
at::Tensor TransformerBlock::run_in_segments(const at::Tensor& x_BTD, const LayerContext& context) const {
  const auto project = [this, context](const std::vector<at::Tensor>& in) {
    const Heads heads = attention_->project(attention_norm_->forward(in[0]), context);
    return std::vector<at::Tensor>{heads.q_BTNH, heads.k_BTKH, heads.v_BTKH};
  };
  const std::vector<at::Tensor> qkv = checkpoint("Attention.project", project, {x_BTD});
  const at::Tensor h_BTD =
      x_BTD + attention_->output(attention_->attend({qkv[0], qkv[1], qkv[2]}, context, nullptr));
  const at::Tensor hidden = checkpoint(
      "FeedForward.hidden",
      [this](const std::vector<at::Tensor>& in) { return feed_forward_->hidden(ffn_norm_->forward(in[0])); },
      {h_BTD});
  return h_BTD + feed_forward_->output(hidden);
}

template <>
ModulePtr build(const TransformerBlockConfig& config) {
  return std::make_shared<TransformerBlock>(config);
}

}  // namespace titan
