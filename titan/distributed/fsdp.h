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
  /// Communicate while a unit computes: gather the next one, sum the gradients of the one before.
  bool prefetch = true;
  /// Keep whole gradients, in the dtype of the shards, over the micro-batches of a step and reduce them once
  /// (set_requires_gradient_sync).
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
/// and scattered when backward has left it. With a replicate group of more than one rank (HSDP) the scattered
/// gradients are summed over it too.
///
/// On the wire of the shard group of n ranks, for P weights of which T are trained (where n divides the rows;
/// in general "(n-1)/n" is what the other ranks hold):
///   all-gather, each micro-batch: 2 P (n-1)/n elements of param_dtype. Units that stay gathered from forward
///     to backward are gathered once: all of them with reshard_after_forward off; by default the last one;
///     with reshard_last_after_forward none. A forward without gradients gathers every unit once.
///   reduce-scatter, each micro-batch: T (n-1)/n elements of param_dtype; with defer_reduce once a step, in
///     the dtype of the shards.
///   all-reduce over the replicate group, once a step: T/n elements of the dtype of the shards.
/// Memory of a rank: (weights + gradients + optimizer state) / n, and of whole tensors
///   weights: the two largest neighbouring units (in use, prefetched); without prefetch the largest one;
///   gradients: one unit's (those that are being summed) and the first one of the next unit, at which the sum
///     is waited for; without prefetch one unit's. With defer_reduce all of them: deferred_gradient_bytes().
/// A unit with several stages (a tied table and head) stays gathered from its first to its last use, in
/// forward and in backward, and its gradients wait for the last one: it counts on top of both.
class FullyShardedModel {
 public:
  /// The parameters of the units have been cut by shard_parameters() and allocated; units come in the order
  /// of their first use. Hooks itself into the units' stages; ends before the model does.
  FullyShardedModel(std::vector<ShardingUnit> units, Group& shard_group, Group& replicate_group,
                    FsdpOptions options);
  ~FullyShardedModel();

  /// Whether the backward passes from now on end an accumulation (at first they do). Then gradients that
  /// defer_reduce has kept are reduced, and the shards' gradients are summed over the replicate group, all
  /// that they hold: they must have been cleared since the last time.
  void set_last_micro_batch(bool last);

  /// After backward() of a micro-batch: reduces the units that backward has not left (the first ones, and
  /// those that it never came to; weights that got no gradient count as zero), waits, frees what is still
  /// gathered. Gradients are then in the shards' grad(). Also ends a forward that no backward follows.
  void finish_backward();

  const FsdpMemory& memory() const;

  /// Bytes of whole gradients that defer_reduce keeps on every rank.
  int64_t deferred_gradient_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace titan
