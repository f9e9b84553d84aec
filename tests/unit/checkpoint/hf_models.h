#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <vector>

#include "titan/checkpoint/hf_model.h"
#include "titan/checkpoint/safetensors.h"

namespace titan::checkpoint_tests {

inline constexpr int64_t kVocab = 5;
inline constexpr int64_t kDim = 4;

/// A model of an embedding, one projection and, unless tied, a head; all zeros.
inline HfModel small_model(bool tied, at::ScalarType dtype = at::kFloat) {
  HfModel model;
  model.title = "small 1M";
  model.tied = tied;
  model.names = {{"tok_embeddings.weight", "model.embed_tokens.weight"},
                 {"layers.0.attention.wo.weight", "model.layers.0.self_attn.o_proj.weight"},
                 {"lm_head.weight", "lm_head.weight"}};
  model.tensors = {whole_tensor("tok_embeddings.weight", at::zeros({kVocab, kDim}, dtype)),
                   whole_tensor("layers.0.attention.wo.weight", at::zeros({kDim, kDim}, dtype))};
  if (!tied) model.tensors.push_back(whole_tensor("lm_head.weight", at::zeros({kVocab, kDim}, dtype)));
  model.config = Json::object();
  model.config.set("model_type", "qwen3");
  model.config.set("tie_word_embeddings", tied);
  return model;
}

/// Distinct numbers beginning at `first`, exact in every float dtype.
inline at::Tensor numbers(std::vector<int64_t> shape, int64_t first, at::ScalarType dtype = at::kFloat) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return (at::arange(count, at::kFloat) + static_cast<double>(first)).view(shape).to(dtype);
}

/// What fills small_model(): embedding from 1, projection from 50, head from 100.
inline std::vector<NamedTensor> small_weights(at::ScalarType dtype = at::kFloat) {
  return {{"model.embed_tokens.weight", numbers({kVocab, kDim}, 1, dtype)},
          {"model.layers.0.self_attn.o_proj.weight", numbers({kDim, kDim}, 50, dtype)},
          {"lm_head.weight", numbers({kVocab, kDim}, 100, dtype)}};
}

}  // namespace titan::checkpoint_tests
