#include "titan/models/qwen3/qwen3.h"

#include <array>

namespace titan {

namespace qwen3 {

namespace {

struct Rename {
  std::string_view native, hf;
};

constexpr std::array kOutside = {Rename{"tok_embeddings", "model.embed_tokens"}, Rename{"norm", "model.norm"},
                                 Rename{"lm_head", "lm_head"}};

constexpr std::array kInsideLayer = {Rename{"attention.qkv_linear.wq", "self_attn.q_proj"},
                                     Rename{"attention.qkv_linear.wk", "self_attn.k_proj"},
                                     Rename{"attention.qkv_linear.wv", "self_attn.v_proj"},
                                     Rename{"attention.wo", "self_attn.o_proj"},
                                     Rename{"attention.q_norm", "self_attn.q_norm"},
                                     Rename{"attention.k_norm", "self_attn.k_norm"},
                                     Rename{"feed_forward.w1", "mlp.gate_proj"},
                                     Rename{"feed_forward.w3", "mlp.up_proj"},
                                     Rename{"feed_forward.w2", "mlp.down_proj"},
                                     Rename{"attention_norm", "input_layernorm"},
                                     Rename{"ffn_norm", "post_attention_layernorm"}};

template <size_t N>
std::string_view renamed(const std::array<Rename, N>& table, std::string_view module,
                         std::string_view parameter) {
  for (const Rename& entry : table) {
    if (entry.native == module) return entry.hf;
  }
  throw ValueError("the parameter {} has no place in a Hugging Face Qwen3 checkpoint", parameter);
}

}  // namespace

std::string hf_name(std::string_view native) {
  const size_t last_dot = native.rfind('.');
  const std::string_view module = native.substr(0, last_dot), leaf = native.substr(last_dot + 1);
  constexpr std::string_view kLayers = "layers.";
  if (!module.starts_with(kLayers)) return format("{}.{}", renamed(kOutside, module, native), leaf);
  const std::string_view rest = module.substr(kLayers.size());
  const size_t dot = rest.find('.');
  return format("model.layers.{}.{}.{}", rest.substr(0, dot),
                renamed(kInsideLayer, rest.substr(dot + 1), native), leaf);
}

std::vector<HfName> Qwen3Model::hf_names() const {
  std::vector<HfName> names;
  for (const auto& [name, parameter] : named_parameters()) names.push_back({name, hf_name(name)});
  return names;
}

}  // namespace qwen3

template <>
ModulePtr build(const qwen3::Qwen3ModelConfig& config) {
  return std::make_shared<qwen3::Qwen3Model>(config);
}

}  // namespace titan
