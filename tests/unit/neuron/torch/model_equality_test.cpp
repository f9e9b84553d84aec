// A model computes the same bits on the device as on the CPU: logits, loss, gradients and weights after
// AdamW.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/remainder.h>
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/neuron/torch/neuron_device.h"
#include "titan/models/common/language_model.h"
#include "titan/models/qwen3/qwen3_config.h"
#include "titan/ops/autograd.h"
#include "titan/train/optimizer.h"

namespace titan {
namespace {

constexpr int64_t kRows = 2, kTokens = 37, kVocabulary = 101;

struct Setting {
  at::ScalarType compute;
  bool tied;
  Recompute recompute;
};

qwen3::Qwen3Sizes odd_sizes(bool tied) {
  qwen3::Qwen3Sizes sizes{.vocab_size = kVocabulary,
                          .dim = 42,
                          .n_layers = 3,
                          .n_heads = 6,
                          .n_kv_heads = 2,
                          .head_dim = 14,
                          .hidden_dim = 75,
                          .max_seq_len = 64,
                          .init_std = 0.1};
  sizes.tied = tied;
  return sizes;
}

/// Rows of two documents, the second of which begins at token 14.
TokenBatch batch_on(at::Device device) {
  const auto options = at::TensorOptions(at::kLong);
  const at::Tensor counter = at::arange(kRows * (kTokens + 1), options).view({kRows, kTokens + 1});
  const at::Tensor ids = (counter * 7919 + counter.div(13, "floor") * 31).remainder(kVocabulary);
  const at::Tensor row = at::cat({at::arange(14, options), at::arange(kTokens - 14, options)});
  return {.input_ids_BT = ids.narrow(1, 0, kTokens).contiguous().to(device),
          .positions_BT = row.expand({kRows, kTokens}).contiguous().to(device),
          .labels_BT = ids.narrow(1, 1, kTokens).contiguous().to(device)};
}

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Everything that two steps on a device give, copied to the CPU.
NamedTensors two_steps(at::Device device, const Setting& setting) {
  const auto model = build_model(qwen3::make_model(odd_sizes(setting.tied)));
  materialize(*model, at::kFloat, device, 11);
  model->set_compute_dtype(setting.compute);
  model->set_recompute(setting.recompute);
  const TokenBatch batch = batch_on(device);
  const auto parameters = model->named_parameters();
  Optimizer optimizer(default_adamw(0.01), parameters);
  NamedTensors all;
  const auto keep = [&](const std::string& name, const at::Tensor& tensor) {
    REQUIRE_MESSAGE(tensor.defined(), name);
    CHECK(tensor.device() == device);
    all.emplace_back(name, tensor.detach().to(at::kCPU, tensor.scalar_type(), false, /*copy=*/true));
  };
  for (int step = 0; step < 2; ++step) {
    keep("logits", model->logits(batch));
    const at::Tensor loss = model->loss(batch, kRows * kTokens);
    keep("loss", loss);
    backward(loss);
    for (const auto& [name, parameter] : parameters) keep("gradient of " + name, parameter->shard.grad());
    optimizer.step(1.0, 1.0);
    for (const auto& [name, parameter] : parameters) keep(name, parameter->shard);
    optimizer.zero_grad();
  }
  return all;
}

}  // namespace

TEST_CASE("A model gives the CPU's logits, losses, gradients and weights to the bit") {
  const at::Device device = neuron();
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    for (const bool tied : {false, true}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        const Setting setting{compute, tied, recompute};
        CAPTURE(c10::toString(compute));
        CAPTURE(tied);
        CAPTURE(static_cast<int>(recompute));
        const NamedTensors cpu = two_steps(at::kCPU, setting), ours = two_steps(device, setting);
        REQUIRE(cpu.size() == ours.size());
        for (size_t i = 0; i < cpu.size(); ++i) {
          CAPTURE(cpu[i].first);
          CHECK((cpu[i].second.scalar_type() == ours[i].second.scalar_type()));
          CHECK(at::equal(cpu[i].second, ours[i].second));
        }
      }
    }
  }
}

}  // namespace titan
