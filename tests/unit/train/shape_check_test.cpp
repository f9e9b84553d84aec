#include "titan/train/shape_check.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <vector>

#include "titan/base/error.h"
#include "titan/models/common/rope.h"
#include "titan/nn/rms_norm.h"
#include "titan/recipes/qwen3.h"

namespace titan {

/// A rotation that demands a sequence length, as a kernel may.
struct PickyRoPEConfig : CosSinRoPEConfig {
  void describe(Fields& f) { f.base<CosSinRoPEConfig>(*this); }
};

/// A norm that keeps the shapes that it is given.
struct WatchedNormConfig : RMSNormConfig {
  void describe(Fields& f) { f.base<RMSNormConfig>(*this); }
};

/// A rotation that looks at its data.
struct NosyRoPEConfig : CosSinRoPEConfig {
  void describe(Fields& f) { f.base<CosSinRoPEConfig>(*this); }
};

namespace {

std::atomic<int> rotations;
std::vector<std::vector<int64_t>> queries, normed;  // the shapes of

class PickyRoPE : public CosSinRoPE {
 public:
  using CosSinRoPE::CosSinRoPE;
  std::pair<at::Tensor, at::Tensor> apply_rotary_emb(const at::Tensor& query_BTNH, const at::Tensor& key_BTKH,
                                                     const at::Tensor& cache_BT2H) const override {
    ++rotations;
    queries.push_back(query_BTNH.sizes().vec());
    if (query_BTNH.size(1) % 96 != 0) throw ValueError("picky: {} is no multiple of 96", query_BTNH.size(1));
    CHECK(query_BTNH.is_meta());
    return CosSinRoPE::apply_rotary_emb(query_BTNH, key_BTKH, cache_BT2H);
  }
};

class WatchedNorm : public RMSNorm {
 public:
  using RMSNorm::RMSNorm;
  at::Tensor forward(const at::Tensor& x) const override {
    normed.push_back(x.sizes().vec());
    return RMSNorm::forward(x);
  }
};

class NosyRoPE : public CosSinRoPE {
 public:
  using CosSinRoPE::CosSinRoPE;
  std::pair<at::Tensor, at::Tensor> apply_rotary_emb(const at::Tensor& query_BTNH, const at::Tensor& key_BTKH,
                                                     const at::Tensor& cache_BT2H) const override {
    if (query_BTNH.sum().item<float>() > 1e30f) throw ValueError("nosy: too large");
    return CosSinRoPE::apply_rotary_emb(query_BTNH, key_BTKH, cache_BT2H);
  }
};

template <class Config>
TrainerConfig config_with_rope(int64_t seq_len) {
  TrainerConfig config = qwen3::qwen3_demo();
  config.training.seq_len = seq_len;
  for (auto& layer : config.model_spec.model->layers) {
    Config rope;
    static_cast<RoPEConfig&>(rope) = *layer->attention->rope;
    layer->attention->rope = rope;
  }
  return config;
}

}  // namespace

template <>
ModulePtr build(const PickyRoPEConfig& config) {
  return std::make_shared<PickyRoPE>(config);
}

template <>
ModulePtr build(const WatchedNormConfig& config) {
  return std::make_shared<WatchedNorm>(config);
}

template <>
ModulePtr build(const NosyRoPEConfig& config) {
  return std::make_shared<NosyRoPE>(config);
}

TEST_CASE("what a module demands of its shapes is said without weights or data") {
  CHECK_THROWS_WITH_AS(check_shapes(config_with_rope<PickyRoPEConfig>(256)),
                       "picky: 256 is no multiple of 96", CommonError);
  CHECK_NOTHROW(check_shapes(config_with_rope<PickyRoPEConfig>(192)));
}

TEST_CASE("layers that are configured alike run once") {
  rotations = 0;
  check_shapes(config_with_rope<PickyRoPEConfig>(192));
  CHECK(rotations == 1);
  TrainerConfig config = config_with_rope<PickyRoPEConfig>(192);
  config.model_spec.model->layers.back()->attention->rope->theta = 777;
  rotations = 0;
  check_shapes(config);
  CHECK(rotations == 2);
}

TEST_CASE("modules see the heads and the tokens of a tensor-parallel rank, the first one and the last") {
  TrainerConfig config = config_with_rope<PickyRoPEConfig>(192);
  for (auto& layer : config.model_spec.model->layers) {
    WatchedNormConfig norm;
    static_cast<RMSNormConfig&>(norm) = *layer->ffn_norm;
    layer->ffn_norm = norm;
  }
  const int64_t heads = config.model_spec.model->layers[0]->attention->n_heads;
  const int64_t rows = config.training.local_batch_size, dim = config.model_spec.model->dim;
  using Shapes = std::vector<std::vector<int64_t>>;
  const auto watch = [&](int64_t tp, bool sequence_parallel) {
    config.parallelism.tensor_parallel_degree = tp;
    config.parallelism.enable_sequence_parallel = sequence_parallel;
    queries.clear();
    normed.clear();
    check_shapes(config);
    for (auto& query : queries) query.pop_back();
  };
  watch(1, true);
  CHECK(queries == Shapes{{rows, 192, heads}});
  CHECK(normed == Shapes{{rows, 192, dim}});
  watch(2, true);
  CHECK(queries == Shapes(2, {rows, 192, heads / 2}));
  CHECK(normed == Shapes(2, {rows, 96, dim}));
  watch(2, false);
  CHECK(queries == Shapes(2, {rows, 192, heads / 2}));
  CHECK(normed == Shapes(2, {rows, 192, dim}));
}

TEST_CASE("a module that needs data is let pass: its shapes cannot be known before the run") {
  CHECK_NOTHROW(check_shapes(config_with_rope<NosyRoPEConfig>(256)));
}

}  // namespace titan
