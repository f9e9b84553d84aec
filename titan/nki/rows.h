#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "titan/nki/tensor.h"

namespace titan::nki {

struct Allocation;

/// The view with its scalar offset added and no offset left that is known at run time only; the view itself
/// where it has none. KernelError for an index that leaves the dimension. Not for vector offsets.
Tensor resolved(const Tensor& view);

/// The elements of an on-chip view, partition by partition, each in the order of its free dimensions. Reads
/// of bytes that were never written are a KernelError that names the tensor, the partition and the element.
/// Scalar offsets are resolved when it is made; the view outlives it.
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

 private:
  std::byte* partition_begin(int64_t partition) const;
  int64_t partition_bit(int64_t partition) const;  ///< where the memory notes partition_begin()'s byte
  bool is_contiguous() const { return runs_.size() == 1 && stride_ == item_; }
  void check_written(int64_t partition) const;
  void mark_written(int64_t partition) const;
  /// Calls `visit(bit, bytes)` for each run of neighbours of a partition: where the memory notes its bytes.
  template <class Visit>
  void each_written_run(int64_t partition, Visit visit) const;

  const Tensor* view_;
  Allocation* allocation_;
  int64_t first_;  ///< partition of the memory
  int64_t partitions_, count_, item_;
  int64_t first_byte_;  ///< of the view in its allocation's partition
  // Of every partition alike: where each innermost run of elements begins, from first_byte_; its elements
  // and their distance in bytes.
  std::vector<int64_t> runs_;
  int64_t run_count_, stride_;
  int64_t lowest_, span_;  ///< the bytes between the first and the last that are reached
};

/// Calls `visit(bytes, first, count)` for each run of neighbouring elements of a view without run-time
/// offsets, anywhere: `first` is the run's first element in the view's order.
void for_each_run(const Tensor& view,
                  const std::function<void(std::byte* bytes, int64_t first, int64_t count)>& visit);

}  // namespace titan::nki
