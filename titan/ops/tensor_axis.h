#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace titan {

/// The ranks among which a weight is cut, as operators see them: these know no groups. One rank needs no
/// `gather`.
struct TensorAxis {
  int64_t size = 1;
  int64_t index = 0;  ///< this rank's place among them
  /// The whole [rows, ...] of which `part` is this rank's chunk of the rows (torch.chunk's: ceil(rows / size)
  /// a rank, the last ones shorter). Every rank calls it at the same point; records no gradient.
  std::function<at::Tensor(const at::Tensor& part, int64_t rows)> gather;
};

/// Which rows of a vocabulary's table a weight holds.
struct VocabularyRows {
  int64_t first = 0;
  int64_t vocabulary = 0;  ///< rows of the whole table; 0: the weight is the whole table
};

/// The whole [..., columns] of which x is this rank's chunk of the last dimension. Every rank computes the
/// same with it, so its gradient's own columns are x's gradient.
at::Tensor gather_columns(const at::Tensor& x, int64_t columns, const TensorAxis& axis);

}  // namespace titan
