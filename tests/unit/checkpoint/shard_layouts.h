#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/checkpoint/hf_models.h"
#include "tests/unit/distributed/thread_ranks.h"
#include "titan/checkpoint/shard_groups.h"

namespace titan::checkpoint_tests {

/// A layout of ranks: rows cut over `shard`, the tensor dimension over `tensor`, copies over `replicate`.
struct Grid {
  int64_t shard = 1, tensor = 1, replicate = 1;
  int64_t size() const { return shard * tensor * replicate; }
};

inline at::Tensor cut(at::Tensor whole, const Block& block) {
  for (size_t dim = 0; dim < block.shape.size(); ++dim) {
    whole = whole.narrow(static_cast<int64_t>(dim), block.offset[dim], block.shape[dim]);
  }
  return whole;
}

/// Runs `rank_main(groups)` on the threads of a grid; tp innermost, as the mesh has it.
inline void run_grid(const Grid& grid, const std::function<void(const ShardGroups&)>& rank_main) {
  using Meetings = std::vector<std::shared_ptr<tests::Meeting>>;
  const auto meetings = [](int64_t count, int64_t size) {
    Meetings made;
    for (int64_t i = 0; i < count; ++i) made.push_back(std::make_shared<tests::Meeting>(size));
    return made;
  };
  const Meetings shards = meetings(grid.size() / grid.shard, grid.shard),
                 tensors = meetings(grid.size() / grid.tensor, grid.tensor),
                 replicas = meetings(grid.size() / grid.replicate, grid.replicate);
  const auto members = [](int64_t first, int64_t count, int64_t step) {
    std::vector<int64_t> ranks;
    for (int64_t i = 0; i < count; ++i) ranks.push_back(first + i * step);
    return ranks;
  };
  tests::run_ranks(grid.size(), [&](int64_t rank) {
    const int64_t t = rank % grid.tensor, s = rank / grid.tensor % grid.shard,
                  r = rank / (grid.tensor * grid.shard), model = grid.tensor * grid.shard;
    tests::ThreadGroup shard(shards[static_cast<size_t>(r * grid.tensor + t)],
                             members(r * model + t, grid.shard, grid.tensor), s);
    tests::ThreadGroup tensor(tensors[static_cast<size_t>(r * grid.shard + s)],
                              members(r * model + s * grid.tensor, grid.tensor, 1), t);
    tests::ThreadGroup replicate(replicas[static_cast<size_t>(s * grid.tensor + t)],
                                 members(s * grid.tensor + t, grid.replicate, model), r);
    rank_main({&shard, &tensor, &replicate});
  });
}

/// This rank's part of a whole tensor, as its groups cut it.
inline ShardedTensor part_of(const ShardedTensor& whole, std::optional<int64_t> tensor_dim,
                             const ShardGroups& groups) {
  Block block = Block::whole(whole.shape);
  if (tensor_dim) block = block.chunk(*tensor_dim, groups.tensor->size(), groups.tensor->index());
  block = block.chunk(0, groups.shard->size(), groups.shard->index());
  return {whole.name, whole.shape, block, cut(whole.tensor, block).clone(), tensor_dim};
}

/// This rank's part of small_model(): the tables cut along dim 0, the projection along dim 1.
inline HfModel part_of(HfModel model, const ShardGroups& groups) {
  for (ShardedTensor& tensor : model.tensors) {
    tensor = part_of(tensor, tensor.name.ends_with("wo.weight") ? 1 : 0, groups);
  }
  return model;
}

}  // namespace titan::checkpoint_tests
