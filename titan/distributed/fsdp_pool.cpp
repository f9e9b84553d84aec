#include "titan/distributed/fsdp_pool.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

namespace titan {

namespace {

/// The unit in use and the one that is gathered meanwhile. More only come back where all units stay gathered
/// until their backward; to keep those would keep the whole model.
constexpr size_t kMaxWaitingBlocks = 2;

}  // namespace

at::Tensor StoragePool::take(int64_t bytes, at::Device device) {
  const auto fits = [&](const at::Tensor& block) {
    return block.numel() == bytes && block.device() == device;
  };
  const auto found = std::ranges::find_if(waiting_, fits);
  if (found == waiting_.end()) {
    waiting_.clear();
    return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
  }
  at::Tensor block = std::move(*found);
  waiting_.erase(found);
  return block;
}

void StoragePool::give_back(at::Tensor block) {
  if (waiting_.size() < kMaxWaitingBlocks) waiting_.push_back(std::move(block));
}

}  // namespace titan
