#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <doctest/doctest.h>

#include <map>
#include <mutex>

#include "tests/unit/memory_watch.h"
#include "tests/unit/test_device.h"
#include "titan/models/common/language_model.h"
#include "titan/models/qwen3/qwen3_config.h"
#include "titan/ops/autograd.h"

using namespace titan;

namespace {

constexpr int64_t kRows = 2, kTokens = 24;

qwen3::Qwen3Sizes sizes(int64_t n_layers) {
  return {.vocab_size = 61,
          .dim = 40,
          .n_layers = n_layers,
          .n_heads = 6,
          .n_kv_heads = 2,
          .head_dim = 8,
          .hidden_dim = 72,
          .max_seq_len = 64};
}

std::shared_ptr<LanguageModel> make(int64_t n_layers, Recompute recompute) {
  auto model = build_model(qwen3::make_model(sizes(n_layers)));
  materialize(*model, at::kFloat, tests::test_device(), 1);
  model->set_recompute(recompute);
  return model;
}

TokenBatch tokens() {
  const auto options = at::TensorOptions().dtype(at::kLong);
  return {at::zeros({kRows, kTokens}, options),
          at::arange(kTokens, options).expand({kRows, kTokens}).contiguous(),
          at::zeros({kRows, kTokens}, options)};
}

/// Bytes that one layer keeps between forward and backward: what three layers keep more than one, halved.
int64_t saved_bytes(Recompute recompute) {
  const auto after_forward = [&](int64_t n_layers) {
    const auto model = make(n_layers, recompute);
    const TokenBatch batch = tokens();
    at::Tensor loss;
    const auto seen = watch([&] { loss = model->loss(batch, 1.0); });
    return seen->now;
  };
  return (after_forward(3) - after_forward(1)) / 2;
}

std::map<std::string, int> counts;
std::mutex counts_mutex;

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  const std::lock_guard lock(counts_mutex);
  ++counts[function.name()];
  return nullptr;
}

/// How often each operator ran in forward and backward of one layer.
std::map<std::string, int> runs(Recompute recompute) {
  const auto model = make(1, recompute);
  const TokenBatch batch = tokens();
  counts.clear();
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION}));
  backward(model->loss(batch, 1.0));
  at::removeCallback(handle);
  return counts;
}

}  // namespace

TEST_CASE("a layer keeps what its activation checkpointing says, to the byte") {
  const auto [vocab, dim, layers, heads, kv_heads, head_dim, hidden, experts, top_k, positions, theta, eps,
              init, tied, bias, route] = sizes(1);
  const int64_t q = heads * head_dim, kv = kv_heads * head_dim, token = 4 * kRows * kTokens;
  // Everything: both norms' inputs, outputs and roots; queries and keys before their norms (with roots) and
  // rotated; values; attention's output and logsumexp; gate, up and hidden of the feed-forward.
  CHECK(saved_bytes(Recompute::none) ==
        token * (4 * dim + 3 * q + 3 * kv + 3 * hidden + 2 + 2 * heads + kv_heads));
  // Input and middle of the layer; attention's operands, output and logsumexp; the input of w2.
  CHECK(saved_bytes(Recompute::selective) == token * (2 * dim + 2 * q + 2 * kv + heads + hidden));
  CHECK(saved_bytes(Recompute::full) == token * dim);
}

TEST_CASE("each recomputed operator runs exactly once more") {
  const auto none = runs(Recompute::none), selective = runs(Recompute::selective),
             full = runs(Recompute::full);
  // A dispatch through autograd and one below it each count, so counts are compared, not stated.
  const int per_linear = none.at("titan::linear") / 7;
  REQUIRE(none.at("titan::linear") == 7 * per_linear);
  CHECK(full.at("titan::linear") == 14 * per_linear);
  CHECK(selective.at("titan::linear") == 12 * per_linear);  // not wo and w2

  const int once = none.at("titan::swiglu");
  CHECK(full.at("titan::swiglu") == 2 * once);
  CHECK(selective.at("titan::swiglu") == 2 * once);
  // RoPE's backward is the same operator, the other way round.
  CHECK(full.at("titan::rope") == none.at("titan::rope") + once);
  CHECK(selective.at("titan::rope") == none.at("titan::rope") + once);
  CHECK(full.at("titan::attention") == 2 * none.at("titan::attention"));
  CHECK(selective.at("titan::attention") == none.at("titan::attention"));
  // Norms of a layer: before attention, of queries, of keys, and the one fused with the residual, which the
  // segments of selective run by itself. The final norm is outside.
  const int per_norm = none.at("titan::rms_norm") / 4;
  REQUIRE(none.at("titan::rms_norm") == 4 * per_norm);
  CHECK(full.at("titan::rms_norm") == 7 * per_norm);
  CHECK(full.at("titan::add_rms_norm") == 2 * none.at("titan::add_rms_norm"));
  CHECK(selective.at("titan::rms_norm") == 9 * per_norm);
  CHECK(full.at("titan::embedding") == none.at("titan::embedding"));
}
