#pragma once

#include <string>
#include <vector>

#include "titan/base/json.h"
#include "titan/checkpoint/sharded_state.h"
#include "titan/nn/hf_name.h"

namespace titan {

/// A model as Hugging Face files see it. The tensors are the live ones: import writes into them.
struct HfModel {
  /// Each storage once; a tied model lists its embedding and no head.
  std::vector<ShardedTensor> tensors;
  /// One entry a tensor at least; entries without a tensor are ignored.
  std::vector<HfName> names;
  /// The head uses the embedding's table.
  bool tied = false;
  std::string embedding_hf = "model.embed_tokens.weight";
  std::string head_hf = "lm_head.weight";
  /// The model's own config.json, written on export when the assets have none.
  Json config;
  /// What to call the model in messages: "qwen3 4B".
  std::string title = "the model";
};

}  // namespace titan
