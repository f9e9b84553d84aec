#include "titan/models/common/check_tensor_parallel.h"

#include <string>

#include "titan/base/error.h"

namespace titan {
namespace {

constexpr const char* kDegree = "parallelism.tensor_parallel_degree";

/// The degrees that divide both: "1, 2 or 4".
std::string common_divisors(int64_t a, int64_t b) {
  std::string text;
  int64_t last = 1;
  for (int64_t degree = 2; degree <= a && degree <= b; ++degree) {
    if (a % degree != 0 || b % degree != 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(last);
    last = degree;
  }
  return text.empty() ? std::to_string(last) : text + " or " + std::to_string(last);
}

void check_heads(const AttentionConfig& attention, const std::string& field, int64_t tp) {
  const auto refuse = [&](const char* name, int64_t heads, const std::string& what) {
    throw ConfigError(
        "{} is {}, but model_spec.model.{}.{} is {}: every rank needs the same number of {}. It can be {}",
        kDegree, tp, field, name, heads, what, common_divisors(attention.n_heads, attention.n_kv_heads));
  };
  if (attention.n_heads % tp != 0) refuse("n_heads", attention.n_heads, "query heads");
  if (attention.n_kv_heads % tp != 0) {
    refuse("n_kv_heads", attention.n_kv_heads,
           format("key and value heads (they are not repeated), and n_heads is {}", attention.n_heads));
  }
}

/// Chunks are ceil(size / tp) long, so the last ranks may be left with nothing.
void check_reaches(int64_t size, const std::string& field, int64_t tp) {
  const int64_t step = (size + tp - 1) / tp;
  if (step * (tp - 1) < size) return;
  throw ConfigError(
      "{} is {}, but model_spec.model.{} is {}: the last rank would hold none of it; lower the degree",
      kDegree, tp, field, size);
}

/// Only titan's own Linear knows that one rank alone adds the bias.
void check_row_bias(const Poly<LinearConfig>& linear, const std::string& field, int64_t tp) {
  if (!linear->bias || same_type(*linear.node().type, node_type<LinearConfig>)) return;
  throw ConfigError(
      "{} is {}, but model_spec.model.{} is {}, a Linear of your own with a bias, which every rank would add "
      "once "
      "more; set its bias to false, take LinearConfig, or set the degree to 1",
      kDegree, tp, field, type_name(*linear.node().type));
}

}  // namespace

void check_tensor_parallel(const ModelConfig& model, int64_t tp, bool sequence_parallel, int64_t seq_len) {
  if (tp <= 1) return;
  if (sequence_parallel && seq_len % tp != 0) {
    throw ConfigError(
        "training.seq_len is {}, but {} is {}: with sequence parallelism each rank takes the same number of "
        "tokens. "
        "Choose a multiple of {}, or set parallelism.enable_sequence_parallel to false",
        seq_len, kDegree, tp, tp);
  }
  if (!same_type(*model.tok_embeddings.node().type, node_type<EmbeddingConfig>)) {
    throw ConfigError(
        "{} is {}, but model_spec.model.tok_embeddings is {}, an embedding of your own, which would be asked "
        "for "
        "tokens of other ranks; take EmbeddingConfig or set the degree to 1",
        kDegree, tp, type_name(*model.tok_embeddings.node().type));
  }
  check_reaches(model.vocab_size, "vocab_size", tp);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const std::string field = format("layers.{}", i);
    const auto& layer = *model.layers[i];
    if (layer.moe) {
      throw ConfigError(
          "{} is {}, but model_spec.model.{}.moe is a mixture of experts, which it cannot cut yet", kDegree,
          tp, field);
    }
    check_heads(*layer.attention, field + ".attention", tp);
    check_row_bias(layer.attention->wo, field + ".attention.wo", tp);
    check_reaches(layer.feed_forward->w1->out_features, field + ".feed_forward.w1.out_features", tp);
    check_row_bias(layer.feed_forward->w2, field + ".feed_forward.w2", tp);
  }
}

}  // namespace titan
