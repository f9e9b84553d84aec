#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "titan/nki/core.h"
#include "titan/nki/instruction.h"
#include "titan/nki/memory.h"

namespace titan::nki {

/// The elements of a view one after another, in HBM and on chip alike, for instructions that move them in the
/// order of access patterns. Reads of bytes that were never written are a KernelError with the element's
/// place.
class Stream {
 public:
  /// The view's dimensions taken in `order` (none: as they are). `name` and `instruction` are for messages.
  Stream(const Tensor& view, const char* name, const Instruction& instruction,
         const std::vector<int64_t>& order = {});

  /// Neighbours along the innermost dimension: `count` elements, `stride` bytes apart.
  struct Piece {
    std::byte* data;
    int64_t count, stride;
  };
  /// The elements that come next.
  Piece next() const;
  void advance(int64_t count);

  /// KernelError unless the next `count` elements, part of next(), were all written.
  void check_written(int64_t count) const;
  /// Notes that the next `count` elements, part of next(), are written.
  void mark(int64_t count) const;

  /// Goes to an element, counted in the stream's order.
  void seek(int64_t element);

  /// Goes to the first element, which is to lie `elements` further than the view says; false, and does
  /// nothing, where the stream would leave the memory.
  bool move_to(int64_t elements);

  /// Makes the stream one row, an index of dimension 0, which move_to then places.
  void take_row(int64_t row);

  /// Tells the core that the next `count` elements are read, or written, where the other core sees them too.
  void note_access(int64_t count, bool writes) const;

  Dtype dtype() const { return view_->dtype(); }
  int64_t itemsize() const { return item_; }
  const Instruction& instruction() const { return *instruction_; }

 private:
  struct Loop {
    int64_t count, bytes, bits;  ///< strides in memory, and in its WrittenBits
  };
  void merge_loops();
  [[noreturn]] void fail_unwritten(int64_t element) const;

  const Tensor* view_;
  const char* name_;
  const Instruction* instruction_;
  std::vector<int64_t> order_;
  WrittenBits* written_;
  SharedAccesses* accesses_ = nullptr;  ///< of shared HBM
  int64_t item_;
  std::vector<Loop> loops_;  ///< outermost first, at least one
  std::byte *base_, *data_;
  int64_t base_bit_, bit_;
  int64_t moved_ = 0;                ///< elements, by move_to
  std::vector<int64_t> indices_;     ///< of loops_
  int64_t position_ = 0;             ///< the next element's number
  int64_t row_ = -1;                 ///< by take_row
  int64_t room_below_, room_above_;  ///< bytes from the first element to the memory's ends
};

/// Moves `count` elements: the bits where the dtypes agree, otherwise through float32.
void transfer(Stream& to, Stream& from, int64_t count);

/// The same in float32, from or into a buffer of the host.
void read_floats(Stream& from, float* to, int64_t count);
void write_floats(Stream& to, const float* from, int64_t count);

}  // namespace titan::nki
