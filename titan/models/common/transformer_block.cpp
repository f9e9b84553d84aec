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

Heads TransformerBlock::project(const at::Tensor& normed, const LayerContext& context) const {
  return attention_->project(attention_->enter(normed), context);
}

at::Tensor TransformerBlock::attend(const Heads& heads, const LayerContext& context,
                                    const CacheSlot* slot) const {
  return attention_->leave(attention_->output(attention_->attend(heads, context, slot)));
}

at::Tensor TransformerBlock::hidden(const at::Tensor& normed) const {
  return feed_forward_->hidden(feed_forward_->enter(normed));
}

at::Tensor TransformerBlock::output(const at::Tensor& hidden) const {
  return feed_forward_->leave(feed_forward_->output(hidden));
}

at::Tensor TransformerBlock::run(const at::Tensor& x_BTD, const LayerContext& context,
                                 const CacheSlot* slot) const {
  const Heads heads = project(attention_norm_->forward(x_BTD), context);
  const auto [h_BTD, normed] = ffn_norm_->add_and_norm(x_BTD, attend(heads, context, slot));
  return h_BTD + output(hidden(normed));
}

// Between the segments lie what attention needs (its operands and output) and the input of the wide matmul
// w2; the segments themselves (norms, RoPE, SwiGLU and the matmuls w1, w3, wq, wk, wv) run again in the
// backward.
at::Tensor TransformerBlock::run_in_segments(const at::Tensor& x_BTD, const LayerContext& context) const {
  const auto project_again = [this, context](const std::vector<at::Tensor>& in) {
    const Heads heads = project(attention_norm_->forward(in[0]), context);
    return std::vector<at::Tensor>{heads.q_BTNH, heads.k_BTKH, heads.v_BTKH};
  };
  const std::vector<at::Tensor> qkv = checkpoint("Attention.project", project_again, {x_BTD});
  const at::Tensor h_BTD = x_BTD + attend({qkv[0], qkv[1], qkv[2]}, context, nullptr);
  const auto hidden_again = [this](const std::vector<at::Tensor>& in) {
    return hidden(ffn_norm_->forward(in[0]));
  };
  return h_BTD + output(checkpoint("FeedForward.hidden", hidden_again, {h_BTD}));
}

template <>
ModulePtr build(const TransformerBlockConfig& config) {
  return std::make_shared<TransformerBlock>(config);
}

}  // namespace titan
