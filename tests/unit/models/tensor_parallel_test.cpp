#include "titan/distributed/tensor_parallel.h"

#include <ATen/TensorOperators.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/models/tensor_parallel_ranks.h"
#include "tests/unit/test_device.h"
#include "titan/nn/linear.h"

namespace titan {

using namespace tests;

/// A Linear of a user's own, as an override would put it into a slot.
struct OwnLinearConfig : LinearConfig {
  void describe(Fields& f) { f.base<LinearConfig>(*this); }
};
class OwnLinear final : public Linear {
 public:
  using Linear::Linear;
  at::Tensor forward(const at::Tensor& x) const override { return x.matmul(weight.value.t()); }
};

/// One with a weight that no rule places.
struct LoraLinearConfig : LinearConfig {
  void describe(Fields& f) { f.base<LinearConfig>(*this); }
};
class LoraLinear final : public Linear {
 public:
  explicit LoraLinear(const LinearConfig& config) : Linear(config) {
    add_parameter("lora_a", lora_a, {2, config.in_features}, {Init::Kind::constant, 0});
  }
  Parameter lora_a;
};

template <>
ModulePtr build(const OwnLinearConfig& config) {
  return std::make_shared<OwnLinear>(config);
}
template <>
ModulePtr build(const LoraLinearConfig& config) {
  return std::make_shared<LoraLinear>(config);
}

namespace {

/// Loss and every gradient of every rank are those of the model alone.
void check_same(const std::vector<Computed>& ranks, const Computed& alone, double bound) {
  for (const Computed& rank : ranks) {
    CHECK(rank.loss == ranks[0].loss);
    CHECK(std::abs(rank.loss - alone.loss) <= bound * alone.loss);
    for (const auto& [name, expected] : alone.grads) {
      INFO(name);
      const at::Tensor& grad = rank.grads.at(name);
      REQUIRE(grad.defined());
      REQUIRE(expected.defined());
      CHECK(relative(grad, part_of(expected, rank.blocks.at(name))) <= bound);
    }
  }
}

}  // namespace

TEST_CASE("two and four ranks compute the loss and the gradients of one, whatever is recomputed") {
  for (const int64_t tp : {2, 4}) {
    for (const bool tied : {false, true}) {
      qwen3::ModelOptions options;
      options.mask = tied ? AttnMask::causal : AttnMask::document;
      const auto config = qwen3::make_model(small_sizes(tp, tied), options);
      const Computed alone = compute_alone(config, {});
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (const bool sequence_parallel : {false, true}) {
          INFO(format("tp {}, tied {}, recompute {}, sequence parallel {}", tp, tied,
                      static_cast<int>(recompute), sequence_parallel));
          const Setting setting{.recompute = recompute, .sequence_parallel = sequence_parallel};
          check_same(compute_on(tp, config, setting), alone, 1e-5);
        }
      }
    }
  }
}

TEST_CASE("ranks agree with one in bfloat16 within its rounding") {
  const auto config = qwen3::make_model(small_sizes(2, false));
  const Setting setting{.dtype = at::kBFloat16, .recompute = Recompute::selective};
  const Computed alone = compute_alone(config, setting);
  for (const Computed& rank : compute_on(2, config, setting)) {
    CHECK(std::abs(rank.loss - alone.loss) <= 4e-3 * alone.loss);
    for (const auto& [name, expected] : alone.grads) {
      INFO(name);
      CHECK(relative(rank.grads.at(name), part_of(expected, rank.blocks.at(name))) <= 4e-2);
    }
  }
}

TEST_CASE("each rank's weights are its part of the weights of one rank, and a quarter of the matrices") {
  const auto config = qwen3::make_model(small_sizes(4, false));
  const auto alone = build_model(config);
  materialize(*alone, at::kFloat, tests::test_device(), 5);
  std::vector<std::vector<Parameter>> held(4);
  run_ranks(4, [&](Group& group) {
    const auto model = build_model(config);
    tensor_parallel(*model, model->tensor_sharding(true), group);
    materialize(*model, at::kFloat, tests::test_device(), 5);
    for (const auto& own : model->named_parameters()) {
      held[static_cast<size_t>(group.index())].push_back(*own.parameter);
    }
  });
  const auto parameters = alone->named_parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, whole] = parameters[i];
    INFO(name);
    int64_t elements = 0;
    for (const auto& rank : held) {
      CHECK(rank[i].value.equal(part_of(whole->value, rank[i].value_block)));
      elements += rank[i].shard.numel();
    }
    const bool is_matrix = whole->shape.size() == 2;
    CHECK(elements == (is_matrix ? 1 : 4) * whole->numel());
  }
}

TEST_CASE("a user's own Linear works in any place, and as the head by way of whole logits") {
  auto config = qwen3::make_model(small_sizes(2, false));
  const auto swap = [](Poly<LinearConfig>& slot) { slot = OwnLinearConfig{LinearConfig(*slot)}; };
  swap(config.layers[0]->attention->qkv_linear->wk);
  swap(config.layers[0]->attention->wo);
  swap(config.layers[1]->feed_forward->w3);
  swap(config.layers[1]->feed_forward->w2);
  swap(config.lm_head);
  for (const bool sequence_parallel : {false, true}) {
    const Setting setting{.sequence_parallel = sequence_parallel};
    check_same(compute_on(2, config, setting), compute_alone(config, setting), 1e-5);
  }
}

TEST_CASE("biases of matrices cut either way are added once and get the gradients of one rank") {
  auto config = qwen3::make_model(small_sizes(2, false));
  auto& attention = *config.layers[0]->attention;
  for (auto* linear : {&*attention.qkv_linear->wq, &*attention.qkv_linear->wv, &*attention.wo,
                       &*config.layers[1]->feed_forward->w1, &*config.layers[1]->feed_forward->w2}) {
    linear->bias = true;
  }
  for (const bool sequence_parallel : {false, true}) {
    const Setting setting{.sequence_parallel = sequence_parallel};
    check_same(compute_on(2, config, setting), compute_alone(config, setting), 1e-5);
  }
}

TEST_CASE("logits of ranks are whole, tied or not") {
  for (const bool tied : {false, true}) {
    const auto config = qwen3::make_model(small_sizes(4, tied));
    const Setting setting{.with_logits = true};
    const Computed alone = compute_alone(config, setting);
    for (const Computed& rank : compute_on(4, config, setting)) {
      REQUIRE(rank.logits.sizes() == alone.logits.sizes());
      CHECK(relative(rank.logits, alone.logits) <= 1e-5);
    }
  }
}

// [Note: bytes of tensor and sequence parallelism]
// With A = B * T * D * element size the bytes of a whole activation, L layers and n ranks, a rank receives
// A (n - 1) / n in each all-gather of an activation and sends as much in each reduce-scatter.
//   forward:    a layer gathers the inputs of attention and feed-forward and scatters their outputs; besides,
//   the
//               embedding scatters and the head gathers: 2L + 1 of each
//   backward:   the same the other way round: 2L + 1 of each
//   selective:  each layer's two gathers run again: + 2L all-gathers
//   full:       a layer runs again whole: + 2L of each
// The loss gathers three floats of each row from each other rank, once per chunk of rows. Without sequence
// parallelism every pair of a gather and a scatter is one all-reduce of A bytes: 2L + 1 in the forward (the
// embedding and the outputs), 2L + 1 in the backward (the inputs and the head), and with full another 2L.
TEST_CASE("bytes on the wire of a forward and backward are those of the formula") {
  constexpr int64_t kActivation = kRows * kTokens * kDim * 4;
  for (const int64_t n : {2, 4}) {
    const auto config = qwen3::make_model(small_sizes(4, true));
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      INFO(format("{} ranks, recompute {}", n, static_cast<int>(recompute)));
      const int64_t gathers_again = recompute == Recompute::none ? 0 : 2 * kLayers;
      const int64_t sums_again = recompute == Recompute::full ? 2 * kLayers : 0;
      const int64_t once = 2 * (2 * kLayers + 1), loss_bytes = 3 * 4 * kRows * kTokens * (n - 1);
      for (const Computed& rank : compute_on(n, config, {.recompute = recompute})) {
        const GroupCounters& seen = rank.counters;
        CHECK(seen.all_gathers == once + gathers_again + 1);
        CHECK(seen.all_gather_bytes == (once + gathers_again) * kActivation * (n - 1) / n + loss_bytes);
        CHECK(seen.reduce_scatters == once + sums_again);
        CHECK(seen.reduce_scatter_bytes == (once + sums_again) * kActivation * (n - 1) / n);
        CHECK(seen.all_reduces == 0);
      }
      for (const Computed& rank :
           compute_on(n, config, {.recompute = recompute, .sequence_parallel = false})) {
        const GroupCounters& seen = rank.counters;
        CHECK(seen.all_gathers == 1);
        CHECK(seen.all_gather_bytes == loss_bytes);
        CHECK(seen.all_reduces == once + sums_again);
        CHECK(seen.all_reduce_bytes == (once + sums_again) * kActivation);
        CHECK(seen.reduce_scatters == 0);
      }
    }
  }
}

TEST_CASE("two runs of one layout give the same bits") {
  const auto config = qwen3::make_model(small_sizes(4, false));
  const auto first = compute_on(4, config, {}), second = compute_on(4, config, {});
  for (size_t rank = 0; rank < first.size(); ++rank) {
    CHECK(first[rank].loss == second[rank].loss);
    for (const auto& [name, grad] : first[rank].grads) CHECK(grad.equal(second[rank].grads.at(name)));
  }
}

TEST_CASE("weights that every rank holds have the same gradients on all of them, bit for bit") {
  for (const bool sequence_parallel : {false, true}) {
    const Setting setting{.sequence_parallel = sequence_parallel};
    const auto ranks = compute_on(4, qwen3::make_model(small_sizes(4, false)), setting);
    for (const auto& [name, grad] : ranks[0].grads) {
      INFO(name);
      if (grad.dim() != 1) continue;
      for (const Computed& rank : ranks) CHECK(rank.grads.at(name).equal(grad));
    }
  }
}

TEST_CASE("a parameter that no rule places is refused by its name") {
  auto config = qwen3::make_model(small_sizes(2, false));
  auto& wq = config.layers[1]->attention->qkv_linear->wq;
  wq = LoraLinearConfig{LinearConfig(*wq)};
  const auto model = build_model(config);
  CHECK_THROWS_WITH_AS(
      model->tensor_sharding(true),
      "parallelism.tensor_parallel_degree: the parameter "
      "layers.1.attention.qkv_linear.wq.lora_a is not one that tensor parallelism knows how to "
      "cut; set the degree to 1 or take the module that has it out of the model",
      ConfigError);
}

}  // namespace titan
