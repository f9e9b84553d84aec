#include "titan/models/qwen3/qwen3_config.h"

#include <array>
#include <cmath>
#include <utility>

#include "titan/base/error.h"
#include "titan/models/qwen3/hf_config.h"

namespace titan::qwen3 {
namespace {

using Flavor = std::pair<std::string_view, Qwen3Sizes>;

const std::array<Flavor, 12>& table() {
  static const std::array<Flavor, 12> flavors = {{
      {"demo",
       {.vocab_size = 2048,
        .dim = 256,
        .n_layers = 4,
        .n_heads = 8,
        .n_kv_heads = 4,
        .head_dim = 32,
        .hidden_dim = 768,
        .max_seq_len = 2048,
        .tied = true}},
      {"debugmodel",
       {.vocab_size = 2048,
        .dim = 256,
        .n_layers = 8,
        .n_heads = 16,
        .n_kv_heads = 8,
        .hidden_dim = 3072,
        .max_seq_len = 4096,
        .tied = true}},
      {"debugmodel_non_fused_qkv",
       {.vocab_size = 2048,
        .dim = 256,
        .n_layers = 8,
        .n_heads = 16,
        .n_kv_heads = 8,
        .hidden_dim = 3072,
        .max_seq_len = 4096,
        .tied = true}},
      {"0.6B",
       {.dim = 1024, .n_layers = 28, .n_heads = 16, .n_kv_heads = 8, .hidden_dim = 3072, .tied = true}},
      {"1.7B",
       {.dim = 2048, .n_layers = 28, .n_heads = 16, .n_kv_heads = 8, .hidden_dim = 6144, .tied = true}},
      {"4B", {.dim = 2560, .n_layers = 36, .n_heads = 32, .n_kv_heads = 8, .hidden_dim = 9728, .tied = true}},
      {"8B", {.dim = 4096, .n_layers = 36, .n_heads = 32, .n_kv_heads = 8, .hidden_dim = 12288}},
      {"14B", {.dim = 5120, .n_layers = 40, .n_heads = 40, .n_kv_heads = 8, .hidden_dim = 17408}},
      {"32B", {.dim = 5120, .n_layers = 64, .n_heads = 64, .n_kv_heads = 8, .hidden_dim = 25600}},
      {"debugmodel_moe",
       {.vocab_size = 2048,
        .dim = 256,
        .n_layers = 8,
        .n_heads = 16,
        .n_kv_heads = 8,
        .hidden_dim = 768,
        .num_experts = 64,
        .top_k = 8,
        .max_seq_len = 4096}},
      {"30B-A3B",
       {.dim = 2048,
        .n_layers = 48,
        .n_heads = 32,
        .n_kv_heads = 4,
        .hidden_dim = 768,
        .num_experts = 128,
        .top_k = 8}},
      {"235B-A22B",
       {.dim = 4096,
        .n_layers = 94,
        .n_heads = 64,
        .n_kv_heads = 4,
        .hidden_dim = 1536,
        .num_experts = 128,
        .top_k = 8,
        .rope_theta = 5e6}},
  }};
  return flavors;
}

Poly<LinearConfig> linear(int64_t in, int64_t out, double std, bool bias = false) {
  return LinearConfig{.in_features = in, .out_features = out, .bias = bias, .init_std = std};
}

Poly<RMSNormConfig> norm(int64_t size, double eps) {
  return RMSNormConfig{.normalized_shape = size, .eps = eps};
}

AttentionConfig attention(const Qwen3Sizes& sizes, const ModelOptions& options, double output_std) {
  const int64_t q = sizes.n_heads * sizes.head_dim, kv = sizes.n_kv_heads * sizes.head_dim;
  const double std = sizes.init_std;
  const bool bias = sizes.attention_bias;
  RoPEConfig rope{.dim = sizes.head_dim,
                  .max_seq_len = options.max_position_embeddings.value_or(sizes.max_seq_len),
                  .theta = options.rope_theta.value_or(sizes.rope_theta)};
  return {.n_heads = sizes.n_heads,
          .n_kv_heads = sizes.n_kv_heads,
          .head_dim = sizes.head_dim,
          .attn_backend = options.attn_backend,
          .mask = options.mask,
          .qkv_linear = QKVLinearConfig{.wq = linear(sizes.dim, q, std, bias),
                                        .wk = linear(sizes.dim, kv, std, bias),
                                        .wv = linear(sizes.dim, kv, std, bias)},
          .wo = linear(q, sizes.dim, output_std, bias),
          .q_norm = norm(sizes.head_dim, sizes.norm_eps),
          .k_norm = norm(sizes.head_dim, sizes.norm_eps),
          .rope = CosSinRoPEConfig{rope}};
}

MoEConfig moe(const Qwen3Sizes& sizes, double output_std) {
  return {.num_experts = sizes.num_experts,
          .router = RouterConfig{.num_experts = sizes.num_experts,
                                 .top_k = sizes.top_k,
                                 .score_func = ScoreFunc::softmax,
                                 .route_norm = sizes.route_norm,
                                 .gate = linear(sizes.dim, sizes.num_experts, sizes.init_std)},
          .routed_experts =
              RoutedExpertsConfig{.inner_experts = GroupedExpertsConfig{.dim = sizes.dim,
                                                                        .hidden_dim = sizes.hidden_dim,
                                                                        .num_experts = sizes.num_experts,
                                                                        .init_std = sizes.init_std,
                                                                        .output_init_std = output_std}},
          .shared_experts = {}};
}

TransformerBlockConfig layer(const Qwen3Sizes& sizes, const ModelOptions& options) {
  const bool sparse = sizes.num_experts > 0;
  // The reference scales the outputs to the residual stream down in mixtures of experts only.
  const double output_std =
      sparse ? sizes.init_std / std::sqrt(2.0 * static_cast<double>(sizes.n_layers)) : sizes.init_std;
  TransformerBlockConfig block{.attention_norm = norm(sizes.dim, sizes.norm_eps),
                               .attention = attention(sizes, options, output_std),
                               .ffn_norm = norm(sizes.dim, sizes.norm_eps),
                               .feed_forward = {},
                               .moe = {}};
  if (sparse) {
    block.moe = moe(sizes, output_std);
  } else {
    block.feed_forward = FeedForwardConfig{.w1 = linear(sizes.dim, sizes.hidden_dim, sizes.init_std),
                                           .w2 = linear(sizes.hidden_dim, sizes.dim, sizes.init_std),
                                           .w3 = linear(sizes.dim, sizes.hidden_dim, sizes.init_std)};
  }
  return block;
}

void refuse_unbuilt(const ModelOptions& options) {
  if (!options.moe_comm_backend.empty() && options.moe_comm_backend != "standard") {
    throw ConfigError("model_registry(..., .moe_comm_backend = \"{}\"): not built yet; leave it out",
                      options.moe_comm_backend);
  }
  if (!options.converters.empty()) {
    throw ConfigError("model_registry(..., .converters = {\"{}\"}): not built yet; leave it out",
                      options.converters.front());
  }
}

}  // namespace

std::vector<std::string> flavors() {
  std::vector<std::string> names;
  for (const auto& [name, sizes] : table()) names.emplace_back(name);
  return names;
}

Qwen3ModelConfig make_model(const Qwen3Sizes& sizes, const ModelOptions& options) {
  refuse_unbuilt(options);
  Qwen3ModelConfig model;
  model.vocab_size = sizes.vocab_size;
  model.dim = sizes.dim;
  model.enable_weight_tying = sizes.tied;
  model.tok_embeddings = EmbeddingConfig{
      .num_embeddings = sizes.vocab_size, .embedding_dim = sizes.dim, .init_std = sizes.init_std};
  model.layers.assign(static_cast<size_t>(sizes.n_layers), layer(sizes, options));
  model.norm = norm(sizes.dim, sizes.norm_eps);
  model.lm_head = linear(sizes.dim, sizes.vocab_size, sizes.init_std);
  return model;
}

Qwen3Sizes flavor_sizes(std::string_view flavor) {
  for (const auto& [name, sizes] : table()) {
    if (name == flavor) return sizes;
  }
  const auto names = flavors();
  throw ConfigError("qwen3 has no flavor \"{}\"{}; flavors: {}", flavor,
                    did_you_mean(std::string(flavor), names), join(names, ", "));
}

ModelSpec model_registry(std::string_view flavor, const ModelOptions& options) {
  const Qwen3Sizes sizes = flavor_sizes(flavor);
  ModelOptions chosen = options;
  if (!options.from_assets.empty()) {
    const Qwen3Sizes theirs = read_hf_sizes(options.from_assets);
    if (!chosen.rope_theta) chosen.rope_theta = theirs.rope_theta;
    if (!chosen.max_position_embeddings) chosen.max_position_embeddings = theirs.max_seq_len;
  }
  return {.name = "qwen3", .flavor = std::string(flavor), .model = make_model(sizes, chosen)};
}

ModelSpec from_assets(const std::string& assets, const ModelOptions& options) {
  return {.name = "qwen3", .flavor = assets, .model = make_model(read_hf_sizes(assets), options)};
}

}  // namespace titan::qwen3
