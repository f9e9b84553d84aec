#include "titan/recipes/summary.h"

#include "titan/base/error.h"
#include "titan/models/common/model_size.h"

namespace titan {
namespace {

void line(std::string& out, const std::string& label, const std::string& value) {
  constexpr size_t kValueColumn = 28;
  out += label + std::string(kValueColumn - std::min(kValueColumn - 1, label.size()), ' ') + value + "\n";
}

/// 4022468096 -> "4.02 B".
std::string rounded(int64_t count) {
  const bool large = count >= 1'000'000'000;
  return fixed(static_cast<double>(count) * (large ? 1e-9 : 1e-6), 2) + (large ? " B" : " M");
}

}  // namespace

std::string summary(const TrainerConfig& config) {
  const auto& spec = config.model_spec;
  if (!spec.model) throw ConfigError("model_spec is empty: there is no model to count");
  const auto& model = *spec.model;
  const auto& attention = *model.layers.front()->attention;
  const ModelSize size = model_size(model);
  const int64_t seq_len = config.training.seq_len;
  const int64_t rows = global_batch_size(config.training, 1);

  std::string out;
  line(out, "model", spec.name + " " + spec.flavor);
  line(out, "layers", std::to_string(model.n_layers()));
  line(out, "heads / kv heads / head_dim",
       format("{} / {} / {}", attention.n_heads, attention.n_kv_heads, attention.head_dim));
  line(out, "parameters", format("{} ({})", with_commas(size.total()), rounded(size.total())));
  if (size.sparse > 0) line(out, "active parameters", with_commas(size.active()));
  for (const auto& [name, count] : size.components) line(out, "  " + name, with_commas(count));
  if (model.enable_weight_tying) line(out, "  head", "tied to the embedding");
  line(
      out, "FLOPs per token",
      format("{} at sequence length {}", with_commas(flops_per_token(model, seq_len)), with_commas(seq_len)));
  line(out, "tokens per step",
       format("{} ({} x {})", with_commas(rows * seq_len), rows, with_commas(seq_len)));
  line(out, "fp32 weights", fixed(static_cast<double>(size.total()) * 4 / (1 << 30), 2) + " GiB");
  line(out, "weights, gradients, AdamW",
       fixed(static_cast<double>(size.total()) * 16 / (1 << 30), 2) + " GiB");
  return out;
}

}  // namespace titan
