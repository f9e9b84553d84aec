#pragma once

#include <cstdint>
#include <vector>

#include "titan/nki/memory.h"

namespace titan::nki {

/// Where a matmul writes: runs of bytes, alike in every partition, and which of them hold sums of a matmul
/// since the tensor was made. Sums belong to the tensor and not to the memory: a tensor made at an address
/// that is in use starts afresh, and what other engines wrote is no sum.
class PsumTile {
 public:
  enum class Sums : uint8_t { nowhere, somewhere, everywhere };

  /// `dst` has no offset that is known at run time only.
  explicit PsumTile(const Tensor& dst);

  Sums sums() const;
  /// Makes places without a sum 0, so that adding overwrites them.
  void clear_others();
  /// Notes that all places hold sums.
  void mark();
  /// Notes that what an instruction other than a sum has written to `dst`, if that lies in PSUM, is no sum.
  static void forget_sums(const Tensor& dst);

 private:
  struct Run {
    int64_t byte, count;
  };

  void add_runs(const Tensor& dst, size_t dim, int64_t byte, int64_t item);
  /// visit(its first bit, partition, run)
  template <class Visit>
  void for_each_run(Visit visit) const;

  Allocation& allocation_;
  int64_t first_, partitions_;
  std::vector<Run> runs_;
  bool fresh_;
};

}  // namespace titan::nki
