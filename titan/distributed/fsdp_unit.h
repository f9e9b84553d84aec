#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "titan/distributed/fsdp.h"
#include "titan/distributed/fsdp_pool.h"
#include "titan/distributed/group.h"

namespace titan {

/// The weights of one unit of fully sharded data parallel: gathers them into `Parameter::value`, frees them,
/// and sums their gradients into the shards. When that happens is FullyShardedModel's business.
///
/// A gathered weight is a leaf of autograd whose storage comes and goes: it is emptied and filled again
/// without a change of its version, so that what autograd has saved of it in forward is good in backward.
class FsdpUnit {
 public:
  /// What units share.
  struct Context {
    Group& shard_group;
    const FsdpOptions& options;
    StoragePool& pool;
    FsdpMemory& memory;
    /// Called when a whole gradient of a unit has arrived and is counted.
    std::function<void()> gradient_arrived;
  };

  FsdpUnit(const ShardingUnit& unit, const Context& context);
  /// Undefines the values that were gathered by it.
  ~FsdpUnit();
  FsdpUnit(const FsdpUnit&) = delete;
  FsdpUnit& operator=(const FsdpUnit&) = delete;

  /// The values are the shards: a group of one rank in the dtype of the shards. Nothing is gathered or freed,
  /// autograd adds into the shards' grad() itself.
  bool aliased() const { return aliased_; }
  bool trainable() const { return !trained_.empty(); }
  /// Bytes of its whole gradients in the dtype of the shards; 0 if aliased.
  int64_t deferred_gradient_bytes() const;

  /// Starts to gather, unless that has been done.
  void start_gather();
  /// Waits for start_gather(); then the values may be read.
  void finish_gather();
  /// Frees the values' storage, also of a gather under way.
  void reshard();

  /// Starts the sum over ranks of the whole gradients, missing ones being zero, into the shards' grad().
  void start_reduction();
  /// Waits for it and frees the whole gradients.
  void finish_reduction();
  /// The shards' gradients, one after another in one tensor.
  at::Tensor shard_gradients();

  /// Forgets what the backward of a pass that failed has left.
  void abandon_gradients();
  /// From here on whole gradients belong to a new pass.
  void begin_pass() { touched_ = reduced_ = false; }

 private:
  struct Member {
    Parameter* parameter;
    at::Tensor value;     ///< parameter->value
    at::Tensor whole;     ///< the same storage, without value's version: what is written to
    at::Tensor own;       ///< this rank's rows of `whole`
    int64_t offset;       ///< where its bytes begin in the unit's block
    at::Tensor gradient;  ///< whole, not yet summed over ranks
  };

  void make_value(Member& member);
  void gradient_ready(Member& member);
  void keep(Member& member, at::Tensor gradient);
  void drop_gradients();
  /// Puts the shards' gradients one after another into one storage. Returns whether there were none, so that
  /// their content is undefined.
  bool line_up_shard_gradients();
  at::ScalarType gradient_dtype(const Member& member) const;

  std::string name_;
  Context context_;
  std::vector<Member> members_;
  std::vector<Member*> trained_;
  bool aliased_ = false;
  int64_t block_bytes_ = 0, value_bytes_ = 0;
  at::Tensor block_;  ///< undefined while sharded
  Pending gather_, reduction_;
  /// In this pass: a whole gradient has arrived; the reduction has begun.
  bool touched_ = false, reduced_ = false;
};

}  // namespace titan
