#pragma once

#include <cstdint>

#include "titan/nki/transfer.h"

namespace titan::nki {

/// One operand of a DMA: a stream whose offset, or the offset of each of its rows, may be known only now.
class DmaSide {
 public:
  DmaSide(const Tensor& view, const char* name, const Instruction& instruction);

  /// Rows that have an index each; 0 where the view lies at one place.
  int64_t indexed_rows() const { return kind_ == Tensor::Indirection::Kind::vector ? view_->size(0) : 0; }
  int64_t index(int64_t row) const;

  /// Goes to the first element; false where the index is out of bounds and such are skipped. KernelError
  /// "dma.out-of-bounds".
  bool start(OobMode mode);
  /// The same for one of `rows` rows.
  bool start_row(int64_t row, int64_t rows, OobMode mode);

  Stream& stream() { return stream_; }
  const Instruction& instruction() const { return stream_.instruction(); }

 private:
  bool move_by_index(int64_t row, OobMode mode);

  const Tensor* view_;
  const char* name_;
  Tensor::Indirection::Kind kind_;
  Stream stream_;
};

/// Rows that a DMA goes through: those with an index, 0 where no operand has any.
int64_t dma_rows(const std::vector<DmaSide>& sides);

void run_dma_compute(const Instruction& instruction);

}  // namespace titan::nki
