#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "titan/distributed/fsdp.h"
#include "titan/distributed/tensor_parallel.h"
#include "titan/models/common/model_config.h"
#include "titan/nn/hf_name.h"
#include "titan/nn/module.h"

// B batch, T tokens of a row, D dim, V vocabulary.
namespace titan {

/// Rows of tokens as a model takes them; all int64 [B, T].
struct TokenBatch {
  at::Tensor input_ids_BT;
  /// Position inside the document: it restarts where a document begins. See first_keys().
  at::Tensor positions_BT;
  /// The target of each token (already shifted), kIgnoreLabel where there is none. Only loss() needs them.
  at::Tensor labels_BT;
};

/// What activation checkpointing keeps of a layer between forward and backward.
enum class Recompute {
  none,       ///< keep everything
  selective,  ///< keep attention's operands and output and the wide matmul's input; norms, RoPE, SwiGLU run
              ///< again
  full,       ///< keep only the layer's input
};

class KVCache;

/// A decoder-only language model, seen from the trainer and the commands.
class LanguageModel : public Module {
 public:
  /// Cross-entropy summed over the labels that count, divided by `normalizer` (the number of such labels of
  /// the whole step): a float32 scalar. The logits are never whole.
  virtual at::Tensor loss(const TokenBatch& batch, double normalizer) const = 0;

  /// float32 [B, T, V].
  virtual at::Tensor logits(const TokenBatch& batch) const = 0;

  /// Room for the keys and values of `batch_size` sequences of `capacity` tokens.
  virtual std::unique_ptr<KVCache> make_cache(int64_t batch_size, int64_t capacity) const = 0;

  /// Logits (float32 [B, V]) after the last of the new tokens ids [B, T], which continue the cached
  /// sequences.
  virtual at::Tensor next_logits(const at::Tensor& ids_BT, KVCache& cache) const = 0;

  /// dtype of activations and matmuls; weights are rounded to it as they are used.
  virtual void set_compute_dtype(at::ScalarType dtype) = 0;

  virtual void set_recompute(Recompute recompute) = 0;

  /// Which modules' weights are used together, in the order of a forward pass. A tied table and the head are
  /// one unit.
  virtual std::vector<ShardingUnit> sharding_units() = 0;

  /// How its modules lie on the tensor-parallel axis; with `sequence_parallel` activations outside attention,
  /// feed-forward and head are cut along the tokens. ConfigError naming a parameter that no rule places.
  virtual ShardingSpec tensor_sharding(bool sequence_parallel) const = 0;

  /// The ranks over which tensor_parallel() has cut the model, for the operators that communicate.
  virtual void set_tensor_axis(TensorAxis axis) = 0;

  /// Hugging Face's name of every parameter.
  virtual std::vector<HfName> hf_names() const = 0;
};

/// Builds the model that the slot describes. Throws ConfigError when it builds something else.
std::shared_ptr<LanguageModel> build_model(const Poly<ModelConfig>& model);

}  // namespace titan
