#include "titan/distributed/lone_group.h"

#include <ATen/core/grad_mode.h>

namespace titan {
namespace {

void copy_unless_same(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  if (to.data_ptr() != from.data_ptr()) to.copy_(from);
}

}  // namespace

Pending LoneGroup::start_all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) {
  for (size_t i = 0; i < outs.size(); ++i) copy_unless_same(outs[i], ins[i]);
  return {};
}

Pending LoneGroup::start_reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins,
                                        bool accumulate) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < outs.size(); ++i) {
    if (accumulate) {
      outs[i].add_(ins[i]);
    } else {
      copy_unless_same(outs[i], ins[i]);
    }
  }
  return {};
}

void LoneGroup::run_gather(const at::Tensor& out, const at::Tensor& in, int64_t, int64_t) {
  copy_unless_same(out, in);
}

}  // namespace titan
