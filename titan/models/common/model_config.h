#pragma once

#include <cstdint>
#include <vector>

#include "titan/config/fields.h"
#include "titan/models/common/block_config.h"
#include "titan/nn/embedding_config.h"
#include "titan/nn/linear_config.h"
#include "titan/nn/rms_norm_config.h"

namespace titan {

/// A decoder-only language model: embedding, layers, final norm, head. Models derive their own from it.
struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t dim = 0;
  bool enable_weight_tying = false;
  Poly<EmbeddingConfig> tok_embeddings = {};
  std::vector<Poly<TransformerBlockConfig>> layers = {};
  Poly<RMSNormConfig> norm = {};
  Poly<LinearConfig> lm_head = {};

  void describe(Fields& f) {
    f("vocab_size", vocab_size, "Rows of the embedding and of the head");
    f("dim", dim, "Width of the residual stream");
    f("enable_weight_tying", enable_weight_tying, "The head uses the embedding's table");
    f("tok_embeddings", tok_embeddings, "Token embedding");
    f("layers", layers, "Transformer layers");
    f("norm", norm, "Norm in front of the head");
    f("lm_head", lm_head, "Head, dim -> vocab_size; holds no weight of its own when tied");
  }

  int64_t n_layers() const { return static_cast<int64_t>(layers.size()); }

  /// Positions the model is made for: the least limit of its layers' RoPE; 0 when there is none.
  int64_t max_seq_len() const;

  /// Whether a layer holds a mixture of experts.
  bool has_moe() const;

  /// ConfigError naming the field when sizes contradict one another.
  void validate() const;
};

}  // namespace titan
