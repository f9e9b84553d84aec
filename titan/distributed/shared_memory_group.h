#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "titan/distributed/group.h"
#include "titan/distributed/operation_queue.h"
#include "titan/distributed/shared_memory.h"

namespace titan {

/// A group whose members share memory. Collectives of few bytes run in the call that starts them; others are
/// carried on by a thread of the group unless the caller waits at once.
class SharedMemoryGroup final : public Group {
 public:
  /// As SharedMemory's constructor.
  SharedMemoryGroup(c10d::Store& store, std::string name, std::vector<int64_t> ranks, int64_t index,
                    const SharedMemoryOptions& options = {});
  /// Carries out what was started. While an exception ends the rank the group fails instead, so that no other
  /// rank waits for this one.
  ~SharedMemoryGroup() override;

  void set_timeout(std::chrono::milliseconds timeout) override { memory_.set_timeout(timeout); }

 private:
  Pending start_all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) override;
  Pending start_reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins,
                               bool accumulate) override;
  Pending start_all_reduce(at::Tensor tensor, ReduceOp op) override;
  void run_broadcast(at::Tensor tensor, int64_t root) override;
  void run_gather(const at::Tensor& out, const at::Tensor& in, int64_t rows, int64_t root) override;
  void run_barrier() override;

  Pending start(int64_t bytes, std::function<void()> run);

  SharedMemory memory_;
  OperationQueue queue_;
};

}  // namespace titan
