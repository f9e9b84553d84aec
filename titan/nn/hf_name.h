#pragma once

#include <string>

namespace titan {

/// One parameter's two names: ours ("layers.0.attention.wo.weight") and the Hugging Face one
/// ("model.layers.0.self_attn.o_proj.weight").
struct HfName {
  std::string native;
  std::string hf;
};

}  // namespace titan
