#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "titan/nn/placement.h"

namespace titan {

/// How a parameter is filled at the start: every element normal(0, value), or every element `value`.
struct Init {
  enum class Kind { normal, constant };
  Kind kind = Kind::normal;
  double value = 0.0;
};

/// One weight of a model. It is described first (shape, init, which block of it this process holds); the
/// tensors stay undefined until the model is allocated.
///
/// Two tensors, because what a rank keeps is not what it computes with: `shard` is the leaf that lives from
/// step to step (initialised, loaded, updated, saved); `value` is what the model's forward reads. They are
/// one and the same tensor unless the weight is fully sharded; then `value` is whole (over that axis), in the
/// dtype of the arithmetic, and has memory only while it is used.
struct Parameter {
  /// Shape of the whole weight, whatever part of it this process holds.
  std::vector<int64_t> shape;
  Init init;
  /// Whether it gets gradients and is updated.
  bool trainable = true;

  /// How it lies on the tensor-parallel axis.
  TensorPlacement tp = {};
  /// The part of the weight that `value` covers.
  Block value_block = {};
  /// The part of the weight that `shard` covers: a range of value_block's rows.
  Block shard_block = {};

  at::Tensor value;
  at::Tensor shard;

  int64_t numel() const {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  }
};

/// Fills `out` (float32 or bfloat16, contiguous, of block.shape) with the part `block` of the weight that
/// `init` describes. An element depends only on (seed, name, its index in the whole weight): any layout
/// starts from the same bits. Normal numbers come from Philox-4x32-10 (Salmon et al. 2011) and the Box-Muller
/// transform.
void fill_block(const at::Tensor& out, const Init& init, const std::vector<int64_t>& shape,
                const Block& block, uint64_t seed, std::string_view name);

}  // namespace titan
