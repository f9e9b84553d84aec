#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/distributed/thread_ranks.h"
#include "tests/unit/test_device.h"
#include "titan/models/common/language_model.h"
#include "titan/models/qwen3/qwen3_config.h"
#include "titan/ops/autograd.h"
#include "titan/ops/linear_cross_entropy.h"

// A small decoder on thread ranks, beside the same decoder alone.
namespace titan::tests {

inline constexpr int64_t kRows = 2, kTokens = 24, kDim = 40, kLayers = 2, kVocab = 2047;

/// Six query heads to two (or twelve to four) of keys; sizes that four ranks cannot cut evenly.
inline qwen3::Qwen3Sizes small_sizes(int64_t kv_heads, bool tied) {
  return {.vocab_size = kVocab,
          .dim = kDim,
          .n_layers = kLayers,
          .n_heads = 3 * kv_heads,
          .n_kv_heads = kv_heads,
          .head_dim = 8,
          .hidden_dim = 70,
          .max_seq_len = 64,
          .init_std = 0.1,
          .tied = tied};
}

/// Rows of two documents, some labels ignored.
inline TokenBatch two_documents() {
  const auto options = at::TensorOptions().dtype(at::kLong);
  const at::Tensor counter = at::arange(kRows * (kTokens + 1), options).view({kRows, kTokens + 1});
  const at::Tensor ids = (counter * 7919 + counter.div(13, "floor") * 31) % kVocab;
  TokenBatch batch;
  batch.input_ids_BT = ids.narrow(1, 0, kTokens).contiguous();
  batch.labels_BT = ids.narrow(1, 1, kTokens).contiguous();
  batch.labels_BT.narrow(1, 3, 4).fill_(kIgnoreLabel);
  batch.positions_BT =
      at::cat({at::arange(11, options), at::arange(13, options)}).expand({kRows, kTokens}).contiguous();
  return batch;
}

struct Computed {
  double loss = 0;
  std::map<std::string, at::Tensor> grads;
  std::map<std::string, Block> blocks;
  at::Tensor logits;
  GroupCounters counters;  ///< of the group, after forward and backward
};

struct Setting {
  at::ScalarType dtype = at::kFloat;
  Recompute recompute = Recompute::none;
  bool sequence_parallel = true;
  bool with_logits = false;
};

inline Computed compute(LanguageModel& model, const Setting& setting, Group* group) {
  model.set_compute_dtype(setting.dtype);
  model.set_recompute(setting.recompute);
  materialize(model, at::kFloat, tests::test_device(), 5);
  const TokenBatch batch = two_documents();
  Computed result;
  const at::Tensor loss = model.loss(batch, 40.0);
  backward(loss);
  if (group) {
    result.counters = group->counters();
    const auto parameters = model.named_parameters();
    sum_partial_gradients(parameters, *group);
  }
  result.loss = loss.item<double>();
  for (const auto& [name, parameter] : model.named_parameters()) {
    result.grads[name] = parameter->shard.grad();
    result.blocks[name] = parameter->value_block;
  }
  if (setting.with_logits) {
    const NoGrad no_grad;
    result.logits = model.logits(batch);
  }
  return result;
}

/// The model on `ranks` threads: what each rank computed.
inline std::vector<Computed> compute_on(int64_t ranks, const Poly<ModelConfig>& config,
                                        const Setting& setting) {
  std::vector<Computed> results(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Group& group) {
    const auto model = build_model(config);
    tensor_parallel(*model, model->tensor_sharding(setting.sequence_parallel), group);
    model->set_tensor_axis(tensor_axis(group));
    results[static_cast<size_t>(group.index())] = compute(*model, setting, &group);
  });
  return results;
}

inline Computed compute_alone(const Poly<ModelConfig>& config, const Setting& setting) {
  Computed result;
  run_ranks(1, [&](Group&) { result = compute(*build_model(config), setting, nullptr); });
  return result;
}

/// Norm of the difference over the norm of what is expected.
inline double relative(const at::Tensor& given, const at::Tensor& expected) {
  const auto wide = expected.to(at::kDouble);
  return ((given.to(at::kDouble) - wide).norm() / (wide.norm() + 1e-12)).item<double>();
}

inline at::Tensor part_of(at::Tensor whole, const Block& block) {
  for (size_t d = 0; d < block.shape.size(); ++d) {
    whole = whole.narrow(static_cast<int64_t>(d), block.offset[d], block.shape[d]);
  }
  return whole;
}

}  // namespace titan::tests
