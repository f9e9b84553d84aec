#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "titan/models/common/model_spec.h"

namespace titan::qwen3 {

/// The Qwen3 architecture: QK-norm, rotate-half RoPE, SwiGLU or a mixture of experts.
struct Qwen3ModelConfig : ModelConfig {
  void describe(Fields& f) { f.base<ModelConfig>(*this); }
};

/// The numbers that make a flavor; hidden_dim is one expert's when num_experts > 0.
struct Qwen3Sizes {
  int64_t vocab_size = 151936;
  int64_t dim = 0;
  int64_t n_layers = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 128;
  int64_t hidden_dim = 0;
  int64_t num_experts = 0;
  int64_t top_k = 0;
  int64_t max_seq_len = 40960;
  double rope_theta = 1e6;
  double norm_eps = 1e-6;
  double init_std = 0.02;
  bool tied = false;
  bool attention_bias = false;
  bool route_norm = true;
};

/// What model_registry may change about a flavor.
struct ModelOptions {
  AttnBackend attn_backend = AttnBackend::flex;
  AttnMask mask = AttnMask::document;
  std::optional<double> rope_theta = {};
  std::optional<int64_t> max_position_embeddings = {};
  /// A folder whose config.json gives rope_theta and max_position_embeddings (the options above win).
  std::string from_assets = {};
  /// Named by the reference and not built yet: anything but the default is a ConfigError.
  std::string moe_comm_backend = {};
  std::vector<std::string> converters = {};
};

/// The names model_registry knows.
std::vector<std::string> flavors();

/// The numbers of a flavor. ConfigError with the nearest name and the list when there is no such flavor.
Qwen3Sizes flavor_sizes(std::string_view flavor);

/// The spec of a flavor. ConfigError with the nearest name and the list when there is no such flavor.
ModelSpec model_registry(std::string_view flavor, const ModelOptions& options = {});

/// The tree for the given sizes.
Qwen3ModelConfig make_model(const Qwen3Sizes& sizes, const ModelOptions& options = {});

/// The spec of any Qwen3 checkpoint from its folder's config.json alone.
ModelSpec from_assets(const std::string& assets, const ModelOptions& options = {});

}  // namespace titan::qwen3
