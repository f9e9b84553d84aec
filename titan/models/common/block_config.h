#pragma once

#include "titan/config/fields.h"
#include "titan/models/common/attention_config.h"
#include "titan/models/common/feed_forward_config.h"
#include "titan/models/common/moe_config.h"
#include "titan/nn/rms_norm_config.h"

namespace titan {

/// One pre-norm transformer layer: h = x + attention(attention_norm(x)); h + feed_forward(ffn_norm(h)).
/// Exactly one of feed_forward and moe is set.
struct TransformerBlockConfig {
  Poly<RMSNormConfig> attention_norm = {};
  Poly<AttentionConfig> attention = {};
  Poly<RMSNormConfig> ffn_norm = {};
  Poly<FeedForwardConfig> feed_forward = {};
  Poly<MoEConfig> moe = {};

  void describe(Fields& f) {
    f("attention_norm", attention_norm, "Norm in front of attention");
    f("attention", attention, "Attention");
    f("ffn_norm", ffn_norm, "Norm in front of the feed-forward");
    f("feed_forward", feed_forward, "Dense feed-forward; empty in a mixture of experts");
    f("moe", moe, "Mixture of experts; empty in a dense layer");
  }
};

}  // namespace titan
