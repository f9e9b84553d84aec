#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "titan/nki/tensor.h"

namespace titan::nki {

struct Allocation;

/// The elements of an on-chip view, partition by partition, each in the order of its free dimensions. Reads
/// of bytes that were never written are a KernelError that names the tensor, the partition and the element.
class Rows {
 public:
  explicit Rows(const Tensor& view);

  int64_t partitions() const { return partitions_; }
  int64_t count() const { return count_; }  ///< elements of one partition

  /// As float32.
  void read(int64_t partition, float* to) const;
  void write(int64_t partition, const float* from) const;
  /// The bits, without conversion.
  void read_bits(int64_t partition, std::byte* to) const;
  void write_bits(int64_t partition, const std::byte* from) const;

  /// Where the elements lie one after another: their first byte (reading checks that all were written;
  /// writing marks them). Null where they do not.
  const std::byte* contiguous_read(int64_t partition) const;
  std::byte* contiguous_write(int64_t partition) const;

  /// For reads that accumulate into what is there: which elements were written before.
  bool was_written(int64_t partition) const;

 private:
  struct Run {
    int64_t byte;   ///< from the partition's begin
    int64_t count;  ///< elements one after another
  };
  const Tensor* view_;
  Allocation* allocation_;
  int64_t partitions_, count_, item_;
  std::vector<Run> runs_;  ///< of every partition alike
};

/// Calls `visit(bytes, first, count)` for each run of neighbouring elements of a view without run-time
/// offsets, anywhere: `first` is the run's first element in the view's order.
void for_each_run(const Tensor& view,
                  const std::function<void(std::byte* bytes, int64_t first, int64_t count)>& visit);

}  // namespace titan::nki
