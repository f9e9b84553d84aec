#pragma once

#include <string>
#include <utility>
#include <vector>

#include "titan/base/error.h"
#include "titan/distributed/group.h"

namespace titan {

/// One member of a group whose other ranks are not there: lays a model out whose tensors are shapes alone,
/// for which no collective is started.
class ShapesGroup final : public Group {
 public:
  ShapesGroup(std::string name, std::vector<int64_t> ranks, int64_t index)
      : Group(std::move(name), std::move(ranks), index) {}

 private:
  [[noreturn]] void refuse() const { throw ValueError("{}: shapes alone are not communicated", name()); }
  Pending start_all_gather(std::vector<at::Tensor>, std::vector<at::Tensor>) override { refuse(); }
  Pending start_reduce_scatter(std::vector<at::Tensor>, std::vector<at::Tensor>, bool) override { refuse(); }
  Pending start_all_reduce(at::Tensor, ReduceOp) override { refuse(); }
  void run_broadcast(at::Tensor, int64_t) override { refuse(); }
  void run_gather(const at::Tensor&, const at::Tensor&, int64_t, int64_t) override { refuse(); }
  void run_barrier() override { refuse(); }
};

}  // namespace titan
