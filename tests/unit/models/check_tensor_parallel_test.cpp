#include "titan/models/common/check_tensor_parallel.h"

#include <doctest/doctest.h>

#include "titan/base/error.h"
#include "titan/models/qwen3/qwen3_config.h"

namespace titan {

struct OwnTableConfig : EmbeddingConfig {
  void describe(Fields& f) { f.base<EmbeddingConfig>(*this); }
};
struct OwnProjectionConfig : LinearConfig {
  void describe(Fields& f) { f.base<LinearConfig>(*this); }
};

namespace {

qwen3::Qwen3ModelConfig six_heads() {
  return qwen3::make_model({.vocab_size = 2047,
                            .dim = 40,
                            .n_layers = 2,
                            .n_heads = 6,
                            .n_kv_heads = 2,
                            .head_dim = 8,
                            .hidden_dim = 70,
                            .max_seq_len = 64});
}

}  // namespace

TEST_CASE("degrees that fit pass, and one rank may do anything") {
  auto model = six_heads();
  check_tensor_parallel(model, 2, true, 24);
  check_tensor_parallel(model, 2, false, 23);
  model.tok_embeddings = OwnTableConfig{EmbeddingConfig(*model.tok_embeddings)};
  check_tensor_parallel(model, 1, true, 23);
  const ModelSpec demo = qwen3::model_registry("demo");
  for (const int64_t tp : {2, 4}) check_tensor_parallel(*demo.model, tp, true, 2048);
}

TEST_CASE("heads that do not divide are refused with the degrees that fit") {
  const auto model = six_heads();
  CHECK_THROWS_WITH_AS(
      check_tensor_parallel(model, 4, true, 24),
      "parallelism.tensor_parallel_degree is 4, but model_spec.model.layers.0.attention.n_heads is "
      "6: every rank needs the same number of query heads. It can be 1 or 2",
      ConfigError);
  CHECK_THROWS_WITH_AS(check_tensor_parallel(model, 3, true, 24),
                       "parallelism.tensor_parallel_degree is 3, but "
                       "model_spec.model.layers.0.attention.n_kv_heads is 2: every rank "
                       "needs the same number of key and value heads (they are not repeated), and n_heads is "
                       "6. It can be 1 or 2",
                       ConfigError);
  const ModelSpec demo = qwen3::model_registry("demo");
  CHECK_THROWS_WITH_AS(check_tensor_parallel(*demo.model, 8, true, 2048),
                       "parallelism.tensor_parallel_degree is 8, but "
                       "model_spec.model.layers.0.attention.n_kv_heads is 4: every rank "
                       "needs the same number of key and value heads (they are not repeated), and n_heads is "
                       "8. It can be 1, 2 or 4",
                       ConfigError);
}

TEST_CASE("rows that do not divide are refused under sequence parallelism") {
  CHECK_THROWS_WITH_AS(check_tensor_parallel(six_heads(), 2, true, 23),
                       "training.seq_len is 23, but parallelism.tensor_parallel_degree is 2: with sequence "
                       "parallelism each rank takes "
                       "the same number of tokens. Choose a multiple of 2, or set "
                       "parallelism.enable_sequence_parallel to false",
                       ConfigError);
}

TEST_CASE("matrices with fewer rows than ranks are refused") {
  auto model = six_heads();
  model.vocab_size = 1;
  CHECK_THROWS_WITH_AS(
      check_tensor_parallel(model, 2, true, 24),
      "parallelism.tensor_parallel_degree is 2, but model_spec.model.vocab_size is 1: the last rank "
      "would hold none of it; lower the degree",
      ConfigError);
  model = six_heads();
  model.layers[1]->feed_forward->w1->out_features = 1;
  CHECK_THROWS_WITH_AS(
      check_tensor_parallel(model, 2, true, 24),
      "parallelism.tensor_parallel_degree is 2, but "
      "model_spec.model.layers.1.feed_forward.w1.out_features is 1: the last rank would hold none of "
      "it; lower the degree",
      ConfigError);
}

TEST_CASE("modules of a user's own are refused where they would have to know the ranks") {
  auto model = six_heads();
  model.tok_embeddings = OwnTableConfig{EmbeddingConfig(*model.tok_embeddings)};
  CHECK_THROWS_WITH_AS(
      check_tensor_parallel(model, 2, true, 24),
      "parallelism.tensor_parallel_degree is 2, but model_spec.model.tok_embeddings is "
      "OwnTableConfig, an embedding of your own, which would be asked for tokens of other ranks; "
      "take EmbeddingConfig or set the degree to 1",
      ConfigError);
  model = six_heads();
  auto& wo = model.layers[1]->attention->wo;
  wo = OwnProjectionConfig{LinearConfig(*wo)};
  check_tensor_parallel(model, 2, true, 24);
  wo->bias = true;
  CHECK_THROWS_WITH_AS(
      check_tensor_parallel(model, 2, true, 24),
      "parallelism.tensor_parallel_degree is 2, but model_spec.model.layers.1.attention.wo is "
      "OwnProjectionConfig, a Linear of your own with a bias, which every rank would add once more; "
      "set its bias to false, take LinearConfig, or set the degree to 1",
      ConfigError);
  const ModelSpec moe = qwen3::model_registry("debugmodel_moe");
  CHECK_THROWS_WITH_AS(
      check_tensor_parallel(*moe.model, 2, true, 2048),
      "parallelism.tensor_parallel_degree is 2, but model_spec.model.layers.0.moe is a mixture of "
      "experts, which it cannot cut yet",
      ConfigError);
}

}  // namespace titan
