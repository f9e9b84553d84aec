#include "titan/checkpoint/sharded_state.h"

#include <algorithm>
#include <utility>

#include "titan/base/error.h"

namespace titan {

int64_t ShardedTensor::whole_bytes(at::ScalarType dtype) const {
  return Block::whole(shape).numel() * static_cast<int64_t>(c10::elementSize(dtype));
}

ShardedTensor whole_tensor(std::string name, at::Tensor tensor) {
  const std::vector<int64_t> shape = tensor.sizes().vec();
  return {std::move(name), shape, Block::whole(shape), std::move(tensor)};
}

ShardedTensor cut_alike(const ShardedTensor& part, std::string name, at::Tensor tensor) {
  check(std::ranges::equal(tensor.sizes(), part.block.shape), "a tensor cut alike has the block's shape");
  return {std::move(name), part.shape, part.block, std::move(tensor), part.tensor_dim};
}

std::vector<ShardedTensor> sharded_state(const Module& model) {
  std::vector<ShardedTensor> state;
  for (const auto& [name, parameter] : model.named_parameters()) {
    check(parameter->shard.defined(), "a model with a state has been allocated");
    state.push_back({name, parameter->shape, parameter->shard_block, parameter->shard, parameter->tp.dim});
  }
  return state;
}

}  // namespace titan
