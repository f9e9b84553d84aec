#pragma once

#include <vector>

#include "titan/checkpoint/sharded_state.h"
#include "titan/train/optimizer.h"

namespace titan {

/// The optimizer's live moments, each cut as its parameter is: `optimizer.state.NAME.exp_avg` and
/// `optimizer.state.NAME.exp_avg_sq` for every parameter of `model` that the optimizer updates, in the order
/// of the model.
std::vector<ShardedTensor> sharded_state(const Optimizer& optimizer, const Module& model);

}  // namespace titan
