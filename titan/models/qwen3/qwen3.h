#pragma once

#include "titan/models/common/decoder.h"
#include "titan/models/qwen3/qwen3_config.h"

namespace titan::qwen3 {

/// Qwen3 (dense): a Decoder with norms on queries and keys. Numerically transformers' Qwen3ForCausalLM.
class Qwen3Model : public Decoder {
 public:
  explicit Qwen3Model(const Qwen3ModelConfig& config) : Decoder(config) {}

  std::vector<HfName> hf_names() const override;
};

/// The Hugging Face name of one of our parameters, "layers.3.attention.wo.weight" ->
/// "model.layers.3.self_attn.o_proj.weight". Throws ValueError for a parameter that Qwen3 does not have
/// there.
std::string hf_name(std::string_view native);

}  // namespace titan::qwen3
