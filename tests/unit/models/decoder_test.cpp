#include "titan/models/common/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include "tests/unit/test_device.h"
#include "titan/models/qwen3/qwen3.h"
#include "titan/ops/autograd.h"
#include "titan/ops/linear_cross_entropy.h"

using namespace titan;

namespace {

const qwen3::Qwen3Sizes kTiny{.vocab_size = 97,
                              .dim = 48,
                              .n_layers = 3,
                              .n_heads = 6,
                              .n_kv_heads = 2,
                              .head_dim = 16,
                              .hidden_dim = 80,
                              .max_seq_len = 128,
                              .init_std = 0.1};

std::shared_ptr<LanguageModel> make(const qwen3::Qwen3Sizes& sizes, const qwen3::ModelOptions& options = {}) {
  auto model = build_model(qwen3::make_model(sizes, options));
  materialize(*model, at::kFloat, tests::test_device(), 11);
  return model;
}

/// Tokens that only depend on (row, column), and labels shifted by one.
TokenBatch tokens(int64_t rows, int64_t length, int64_t vocab_size) {
  const auto options = at::TensorOptions().dtype(at::kLong);
  TokenBatch batch;
  const at::Tensor counter = at::arange(rows * (length + 1), options).view({rows, length + 1});
  const at::Tensor ids = (counter * 7919 + counter.div(13, "floor") * 31) % vocab_size;
  batch.input_ids_BT = ids.narrow(1, 0, length).contiguous();
  batch.labels_BT = ids.narrow(1, 1, length).contiguous();
  batch.positions_BT = at::arange(length, options).expand({rows, length}).contiguous();
  return batch;
}

std::vector<at::Tensor> gradients(LanguageModel& model, const TokenBatch& batch, double& loss_value) {
  for (const auto& [name, parameter] : model.named_parameters())
    parameter->value.mutable_grad() = at::Tensor();
  const at::Tensor loss = model.loss(batch, static_cast<double>(batch.labels_BT.numel()));
  backward(loss);
  loss_value = loss.item<double>();
  std::vector<at::Tensor> grads;
  for (const auto& [name, parameter] : model.named_parameters()) {
    INFO(name);
    REQUIRE(parameter->value.grad().defined());
    grads.push_back(parameter->value.grad().clone());
  }
  return grads;
}

}  // namespace

TEST_CASE("activation checkpointing changes no bit of loss or gradients") {
  const auto model = make(kTiny);
  const TokenBatch batch = tokens(2, 33, kTiny.vocab_size);
  double loss = 0;
  const auto expected = gradients(*model, batch, loss);
  for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
    model->set_recompute(recompute);
    double again = 0;
    const auto grads = gradients(*model, batch, again);
    CHECK(again == loss);
    for (size_t i = 0; i < grads.size(); ++i) CHECK(at::equal(grads[i], expected[i]));
  }
}

TEST_CASE("tied and untied heads have their own parameters and all get gradients") {
  auto sizes = kTiny;
  double loss = 0;
  const auto untied = make(sizes);
  CHECK(untied->named_parameters().back().name == "lm_head.weight");
  gradients(*untied, tokens(1, 9, 97), loss);
  sizes.tied = true;
  const auto tied = make(sizes);
  CHECK(tied->named_parameters().back().name == "norm.weight");
  gradients(*tied, tokens(1, 9, 97), loss);
  CHECK(tied->hf_names().size() == tied->named_parameters().size());
}

TEST_CASE("a row of two documents gives each the logits it has alone") {
  const auto model = make(kTiny);
  TokenBatch row = tokens(2, 40, kTiny.vocab_size);
  const auto options = row.positions_BT.options();
  row.positions_BT = at::cat({at::arange(17, options), at::arange(23, options)}).expand({2, 40}).contiguous();
  const NoGrad no_grad;
  const at::Tensor logits = model->logits(row);
  const auto part = [&](int64_t start, int64_t length) {
    TokenBatch alone;
    alone.input_ids_BT = row.input_ids_BT.narrow(1, start, length).contiguous();
    alone.positions_BT = row.positions_BT.narrow(1, start, length).contiguous();
    return model->logits(alone);
  };
  const double scale = logits.abs().max().item<double>();
  CHECK((logits.narrow(1, 0, 17) - part(0, 17)).abs().max().item<double>() <= 1e-6 * scale);
  CHECK((logits.narrow(1, 17, 23) - part(17, 23)).abs().max().item<double>() <= 1e-6 * scale);

  qwen3::ModelOptions causal;
  causal.mask = AttnMask::causal;
  const at::Tensor leaking = make(kTiny, causal)->logits(row);
  CHECK((leaking.narrow(1, 0, 17) - part(0, 17)).abs().max().item<double>() <= 1e-6 * scale);
  CHECK((leaking.narrow(1, 17, 23) - part(17, 23)).abs().max().item<double>() > 1e-3 * scale);
}

TEST_CASE("the three backends are one mathematics, and complex RoPE is cos-sin RoPE bit for bit") {
  const TokenBatch batch = tokens(2, 21, kTiny.vocab_size);
  const NoGrad no_grad;
  const at::Tensor expected = make(kTiny)->logits(batch);
  for (const AttnBackend backend : {AttnBackend::sdpa, AttnBackend::varlen}) {
    qwen3::ModelOptions options;
    options.attn_backend = backend;
    CHECK(at::equal(make(kTiny, options)->logits(batch), expected));
  }
  auto config = qwen3::make_model(kTiny);
  for (auto& layer : config.layers) {
    const RoPEConfig rope = *layer->attention->rope;
    layer->attention->rope = ComplexRoPEConfig{rope};
  }
  const auto complex = build_model(config);
  materialize(*complex, at::kFloat, tests::test_device(), 11);
  CHECK(at::equal(complex->logits(batch), expected));
}

TEST_CASE("layers whose RoPE differs in theta alone do not share its cache") {
  const TokenBatch batch = tokens(1, 21, kTiny.vocab_size);
  const NoGrad no_grad;
  auto config = qwen3::make_model(kTiny);
  config.layers[1]->attention->rope->theta = 100.0;
  const auto mixed = build_model(config);
  materialize(*mixed, at::kFloat, tests::test_device(), 11);
  CHECK_FALSE(at::equal(mixed->logits(batch), make(kTiny)->logits(batch)));
}

TEST_CASE("decoding with a KV cache, whole prompts or single tokens, gives the logits of one forward") {
  const auto model = make(kTiny);
  const TokenBatch batch = tokens(2, 19, kTiny.vocab_size);
  const NoGrad no_grad;
  const at::Tensor logits = model->logits(batch);
  const double scale = logits.abs().max().item<double>();
  const auto cache = model->make_cache(2, 19);
  at::Tensor next = model->next_logits(batch.input_ids_BT.narrow(1, 0, 7), *cache);
  CHECK((next - logits.select(1, 6)).abs().max().item<double>() <= 2e-6 * scale);
  for (int64_t t = 7; t < 19; ++t) {
    next = model->next_logits(batch.input_ids_BT.narrow(1, t, 1), *cache);
    CHECK((next - logits.select(1, t)).abs().max().item<double>() <= 2e-6 * scale);
  }
  CHECK_THROWS_AS(model->next_logits(batch.input_ids_BT.narrow(1, 0, 1), *cache), std::logic_error);
}

TEST_CASE("a mask of positions that do not start at zero still sees its own document only") {
  const auto model = make(kTiny);
  TokenBatch batch = tokens(1, 12, kTiny.vocab_size);
  const NoGrad no_grad;
  const at::Tensor logits = model->logits(batch);
  batch.positions_BT = batch.positions_BT + 50;  // rotary embedding only sees differences
  CHECK((model->logits(batch) - logits).abs().max().item<double>() <=
        2e-5 * logits.abs().max().item<double>());
}

TEST_CASE("a head with a bias takes the plain path and gives its gradient") {
  auto config = qwen3::make_model(kTiny);
  config.lm_head->bias = true;
  const auto model = build_model(config);
  materialize(*model, at::kFloat, tests::test_device(), 11);
  double with_bias = 0, without = 0;
  const TokenBatch batch = tokens(2, 10, kTiny.vocab_size);
  const auto grads = gradients(*model, batch, with_bias);
  CHECK(model->named_parameters().back().name == "lm_head.bias");
  CHECK(grads.back().abs().sum().item<double>() > 0.0);
  gradients(*make(kTiny), batch, without);
  CHECK(with_bias == doctest::Approx(without).epsilon(1e-6));
}

TEST_CASE("forward and backward of every flavor's block run on shapes alone") {
  for (const std::string& flavor : qwen3::flavors()) {
    INFO(flavor);
    auto spec = qwen3::model_registry(flavor);
    if (spec.model->has_moe()) continue;
    spec.model->layers.resize(1);
    const auto model = build_model(spec.model);
    materialize(*model, at::kFloat, at::kMeta, 0);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        model->set_compute_dtype(dtype);
        model->set_recompute(recompute);
        const auto ids = at::TensorOptions().dtype(at::kLong).device(at::kMeta);
        const TokenBatch batch{at::empty({2, 256}, ids), at::empty({2, 256}, ids), at::empty({2, 256}, ids)};
        const at::Tensor loss = model->loss(batch, 1.0);
        CHECK(loss.is_meta());
        backward(loss);
        for (const auto& [name, parameter] : model->named_parameters()) {
          INFO(name);
          REQUIRE(parameter->value.grad().defined());
          CHECK(parameter->value.grad().sizes().equals(parameter->shape));
          parameter->value.mutable_grad() = at::Tensor();
        }
        const at::Tensor logits = model->logits(batch);
        CHECK(logits.sizes().equals({2, 256, spec.model->vocab_size}));
      }
    }
  }
}

TEST_CASE("a mixture of experts is refused by name") {
  CHECK_THROWS_WITH_AS(build_model(qwen3::model_registry("debugmodel_moe").model),
                       doctest::Contains("not built yet"), ConfigError);
}
