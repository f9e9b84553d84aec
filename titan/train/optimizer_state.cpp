#include "titan/train/optimizer_state.h"

#include <unordered_map>

#include "titan/base/error.h"

namespace titan {

std::vector<ShardedTensor> sharded_state(const Optimizer& optimizer, const Module& model) {
  struct Moments {
    at::Tensor exp_avg, exp_avg_sq;
  };
  std::unordered_map<const at::TensorImpl*, Moments> moments_of;
  for (const ParamGroup& group : optimizer.groups()) {
    for (size_t i = 0; i < group.params.size(); ++i) {
      moments_of[group.params[i].unsafeGetTensorImpl()] = {group.exp_avgs[i], group.exp_avg_sqs[i]};
    }
  }
  std::vector<ShardedTensor> state;
  for (const ShardedTensor& weight : sharded_state(model)) {
    const auto found = moments_of.find(weight.tensor.unsafeGetTensorImpl());
    if (found == moments_of.end()) continue;
    const std::string prefix = format("optimizer.state.{}.", weight.name);
    state.push_back(cut_alike(weight, prefix + "exp_avg", found->second.exp_avg));
    state.push_back(cut_alike(weight, prefix + "exp_avg_sq", found->second.exp_avg_sq));
  }
  return state;
}

}  // namespace titan
