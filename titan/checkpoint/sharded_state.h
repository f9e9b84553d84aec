#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "titan/nn/module.h"
#include "titan/nn/placement.h"

namespace titan {

/// The part of a weight (or of what an optimizer keeps for it) that this rank holds.
struct ShardedTensor {
  std::string name;
  /// Of the whole.
  std::vector<int64_t> shape;
  /// Where `tensor` lies in the whole; tensor.sizes() is block.shape.
  Block block;
  at::Tensor tensor;
  /// The dimension that the tensor-parallel ranks cut; none: each has all of it.
  std::optional<int64_t> tensor_dim = {};

  /// Bytes of the whole in that dtype.
  int64_t whole_bytes(at::ScalarType dtype) const;
};

/// A tensor of which this rank holds everything.
ShardedTensor whole_tensor(std::string name, at::Tensor tensor);

/// Another tensor that is cut as `part` is, such as an optimizer's moment.
ShardedTensor cut_alike(const ShardedTensor& part, std::string name, at::Tensor tensor);

/// The live shards of every parameter of an allocated model, under its fully qualified name, in the order of
/// registration. Over all ranks that share a weight the blocks cover it once.
std::vector<ShardedTensor> sharded_state(const Module& model);

}  // namespace titan
