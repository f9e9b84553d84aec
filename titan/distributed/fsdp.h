#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "titan/distributed/group.h"
#include "titan/nn/module.h"

namespace titan {

/// Modules whose weights are gathered together, because they are used together.
struct ShardingUnit {
  std::string name;
  /// Their parameters are the unit's, children included.
  std::vector<Module*> modules;
  /// Where a forward pass uses them, in order. The first one's `before` is the first use of the pass; after
  /// the last one the pass is done with them.
  std::vector<ForwardStage*> stages;
};

/// Settings of fully_shard, torch's names in brackets.
struct FsdpOptions {
  /// dtype of gathered weights, thus of the arithmetic and of the wire (MixedPrecisionPolicy.param_dtype).
  at::ScalarType param_dtype = at::kFloat;
  /// Free gathered weights after forward and gather them again for backward.
  bool reshard_after_forward = true;
  /// The same for the last unit, which backward uses at once.
  bool reshard_last_after_forward = false;
  /// Gather the next unit while one computes.
  bool prefetch = true;
  /// Keep whole gradients over the micro-batches of a step and reduce them once (set_requires_gradient_sync).
  bool defer_reduce = false;
};

/// Bytes that a rank holds, counted as they are allocated and freed.
struct FsdpMemory {
  int64_t unsharded = 0, peak_unsharded = 0;                      ///< gathered weights
  int64_t unsharded_gradients = 0, peak_unsharded_gradients = 0;  ///< gradients before the reduction
};

/// Cuts every parameter's rows over `shards` ranks: sets shard_block. To be called before allocate().
void shard_parameters(Module& model, int64_t shards, int64_t index);

/// Fully sharded data parallel (FSDP2, Zhao et al. 2023): each rank keeps a range of the rows of every
/// weight; a unit's weights are gathered before its forward and before its backward, its gradients are summed
/// and scattered when the last of them is there. With a replicate group of more than one rank (HSDP) the
/// scattered gradients are summed over it too.
class FullyShardedModel {
 public:
  /// The parameters of the units have been cut by shard_parameters() and allocated. Hooks itself into the
  /// units' stages; lives as long as the model computes.
  FullyShardedModel(std::vector<ShardingUnit> units, Group& shard_group, Group& replicate_group,
                    FsdpOptions options);
  ~FullyShardedModel();

  /// Whether the backward passes from now on end an accumulation (with defer_reduce: reduce then).
  void set_last_micro_batch(bool last);

  /// After backward() of a micro-batch: reduces what no hook has reduced (weights that got no gradient),
  /// frees what is still gathered. Gradients are then in the shards' grad().
  void finish_backward();

  const FsdpMemory& memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace titan
