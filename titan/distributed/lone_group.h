#pragma once

#include <string>
#include <utility>
#include <vector>

#include "titan/distributed/group.h"

namespace titan {

/// A group of one rank: its collectives are copies, or nothing.
class LoneGroup final : public Group {
 public:
  LoneGroup(std::string name, int64_t rank) : Group(std::move(name), {rank}, 0) {}

 private:
  Pending start_all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) override;
  Pending start_reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins,
                               bool accumulate) override;
  Pending start_all_reduce(at::Tensor, ReduceOp) override { return {}; }
  void run_broadcast(at::Tensor, int64_t) override {}
  void run_gather(const at::Tensor& out, const at::Tensor& in, int64_t rows, int64_t root) override;
  void run_barrier() override {}
};

}  // namespace titan
