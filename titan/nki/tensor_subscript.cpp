#include "titan/base/error.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"
#include "titan/nki/tensor.h"

namespace titan::nki {

void Tensor::check_viewed(std::string_view method, const Where& where) const {
  check_defined(method, where);
  if (indirection_.kind != Indirection::Kind::vector) return;
  throw KernelError("ap.view-of-vector-offset",
                    format("{} of {}: a view with a vector offset has no further views; make them before .ap",
                           method, describe()),
                    where);
}

Slice Tensor::bounded(int64_t dim, const Index& index, const Where& where) const {
  const int64_t count = size(dim);
  Slice run = index.slice;
  if (index.is_number) {
    if (run.start >= 0 && run.start < count) return ds(run.start, 1);
    throw KernelError(
        "tensor.index-bounds",
        format("index {} of dimension {} of {} is not in 0 .. {}", run.start, dim, describe(), count - 1),
        where);
  }
  if (run.stop == Slice::kEnd) run.stop = count;
  if (run.step < 1) {
    throw KernelError(
        "tensor.slice-step",
        format("a slice of dimension {} of {} has step {}: steps are at least 1", dim, describe(), run.step),
        where);
  }
  if (run.start < 0 || run.stop > count) {
    throw KernelError("tensor.index-bounds",
                      format("slice {}:{} of dimension {} of {} is not within 0:{}", run.start, run.stop, dim,
                             describe(), count),
                      where);
  }
  if (run.stop <= run.start) {
    throw KernelError(
        "tensor.empty-slice",
        format("slice {}:{} of dimension {} of {} has no elements", run.start, run.stop, dim, describe()),
        where);
  }
  return run;
}

Tensor Tensor::subscript(const std::vector<Index>& indices, const Where& where) const {
  check_viewed("a subscript", where);
  if (indices.size() > dims_.size()) {
    throw KernelError("tensor.too-many-indices",
                      format("{} indices of {}, which has {} dimensions", indices.size(), describe(), ndim()),
                      where);
  }
  const bool on_chip = is_on_chip(buffer());
  Tensor result = *this;
  result.dims_.clear();
  for (size_t i = 0; i < dims_.size(); ++i) {
    const Dim& dim = dims_[i];
    if (i >= indices.size()) {
      result.dims_.push_back(dim);
      continue;
    }
    const Slice run = bounded(static_cast<int64_t>(i), indices[i], where);
    const bool partitions = on_chip && i == 0;
    if (partitions && run.step != 1) {
      throw KernelError(
          "tensor.partition-step",
          format("a slice of the partitions of {} has step {}: engines reach neighbouring partitions "
                 "only",
                 describe(), run.step),
          where);
    }
    (partitions ? result.partition_offset_ : result.offset_) += run.start * dim.stride;
    if (indices[i].is_number && !partitions) continue;
    const int64_t count = (run.stop - run.start - 1) / run.step + 1;
    result.dims_.push_back({count, count == 1 ? dim.stride : dim.stride * run.step});
  }
  // On chip a tensor has partitions and a free dimension; in HBM at least one.
  while (result.dims_.size() < (on_chip ? 2 : 1)) result.dims_.push_back({1, 1});
  return result;
}

}  // namespace titan::nki
