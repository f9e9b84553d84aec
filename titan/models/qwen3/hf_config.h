#pragma once

#include <string>
#include <string_view>

#include "titan/base/json.h"
#include "titan/models/common/hf_comparison.h"
#include "titan/models/common/model_spec.h"
#include "titan/models/qwen3/qwen3_config.h"

namespace titan::qwen3 {

/// The numbers in a Hugging Face config.json (model_type qwen3 or qwen3_moe). `what` names the file in
/// messages. ValueError naming the key that is missing, of the wrong type, or asks for what is not built.
Qwen3Sizes hf_sizes(const Json& hf, std::string_view what);

/// hf_sizes of `assets`/config.json.
Qwen3Sizes read_hf_sizes(const std::string& assets);

/// The numbers of a model's tree. ConfigError when its layers differ: a config.json cannot say that.
Qwen3Sizes sizes_of(const ModelConfig& model);

/// Compares config.json with the model that would be trained.
HfComparison compare(const ModelSpec& spec, const Json& hf, std::string_view what);

/// A config.json for the model that transformers loads (Qwen3ForCausalLM, Qwen3MoeForCausalLM).
Json hf_config(const ModelSpec& spec);

}  // namespace titan::qwen3
