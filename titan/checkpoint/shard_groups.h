#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>

#include "titan/checkpoint/sharded_state.h"
#include "titan/distributed/group.h"

namespace titan {

/// The ranks that save and load together; no group: a single process. Every function that takes them is
/// called by all of their ranks at the same point.
struct ShardGroups {
  Group* shard = nullptr;      ///< cut the rows of every weight among them (Axis::fsdp)
  Group* tensor = nullptr;     ///< cut the dimensions that tensor parallelism cuts (Axis::tp)
  Group* replicate = nullptr;  ///< hold the same (Axis::dp_replicate); only the first of them saves

  /// Whether this rank writes files and logs: the first along every axis.
  bool writes() const;
  /// Whether this rank's weights go into the files.
  bool saves() const;
  /// Whether there is more than one rank.
  bool several() const;
};

/// Work that may fail on some ranks and then has to end all of them.
class SharedAttempt {
 public:
  explicit SharedAttempt(const ShardGroups& groups) : groups_(groups) {}

  /// Does `work`; its exception is kept for agree(). Nothing is done after a failure. No collectives in it.
  void run(const std::function<void()>& work);

  /// Where a rank has failed, throws on every rank: there its own exception, elsewhere a ValueError with the
  /// same text.
  void agree();

 private:
  ShardGroups groups_;
  std::exception_ptr error_;
};

/// Whether every rank gave the same number.
bool same_everywhere(const ShardGroups& groups, int64_t number);

/// All of a tensor, on the rank that writes; undefined on the others. For ranks that save. The ranks of one
/// column of the mesh hold at most their part of it.
at::Tensor gather_whole(const ShardedTensor& part, const ShardGroups& groups);

}  // namespace titan
