#include <algorithm>
#include <numeric>

#include "titan/base/error.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"
#include "titan/nki/strides.h"
#include "titan/nki/tensor.h"

namespace titan::nki {
namespace {

void check_dim(const Tensor& tensor, std::string_view method, int64_t dim, int64_t first, int64_t end,
               const std::source_location& where) {
  if (dim >= first && dim < end) return;
  throw KernelError(
      "tensor.dimension",
      format("{} of {}: dimension {} is not in {} .. {}{}", method, tensor.describe(), dim, first, end - 1,
             is_on_chip(tensor.buffer()) ? " (on chip dimension 0 is the partitions and stays)" : ""),
      where);
}

int64_t first_free(const Tensor& tensor) { return is_on_chip(tensor.buffer()) ? 1 : 0; }

/// Strides with which `shape` steps through the same elements in the same order; false where there are none.
bool strides_for(std::vector<Dim> runs, std::vector<Dim>& shape) {
  for (auto dim = shape.rbegin(); dim != shape.rend(); ++dim) {
    if (dim->count == 1) {
      dim->stride = runs.empty() ? 1 : runs.back().stride * runs.back().count;
      continue;
    }
    if (runs.empty() || runs.back().count % dim->count != 0) return false;
    dim->stride = runs.back().stride;
    runs.back() = {runs.back().count / dim->count, runs.back().stride * dim->count};
    if (runs.back().count == 1) runs.pop_back();
  }
  return runs.empty();
}

}  // namespace

Tensor Tensor::reshape(const std::vector<int64_t>& sizes, const Where& where) const {
  check_viewed("reshape", where);
  const auto refuse = [&](std::string_view why) {
    throw KernelError("tensor.reshape", format("reshape of {} to {}: {}", describe(), shape_text(sizes), why),
                      where);
  };
  const bool on_chip = is_on_chip(buffer());
  int64_t rest = numel();
  for (int64_t size : sizes) {
    if (size < 1 || rest % size != 0) refuse(format("it has {} elements", numel()));
    rest /= size;
  }
  if (rest != 1) refuse(format("it has {} elements", numel()));
  if (on_chip && (sizes.size() < 2 || sizes[0] != partitions())) {
    refuse("on chip dimension 0 is the partitions and keeps its size, and there is another one");
  }
  std::vector<Dim> shape;
  for (int64_t size : sizes) shape.push_back({size, 1});
  if (shape.empty()) shape.push_back({1, 1});
  std::vector<Dim> free(shape.begin() + (on_chip ? 1 : 0), shape.end());
  if (!strides_for(merged_dims(dims_, on_chip ? 1 : 0), free)) {
    refuse("its elements do not lie so that one access pattern reaches them in this shape; copy it first");
  }
  std::copy(free.begin(), free.end(), shape.begin() + (on_chip ? 1 : 0));
  Tensor result = *this;
  result.dims_ = std::move(shape);
  result.base_shape_ = result.shape();
  return result;
}

Tensor Tensor::permute(const std::vector<int64_t>& order, const Where& where) const {
  check_viewed("permute", where);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> expected(dims_.size());
  std::iota(expected.begin(), expected.end(), 0);
  if (sorted != expected || (is_on_chip(buffer()) && order[0] != 0)) {
    throw KernelError(
        "tensor.permute",
        format("permute of {} to {}: each dimension is named once{}", describe(), shape_text(order),
               is_on_chip(buffer()) ? ", and the partitions stay first (nc_transpose moves them)" : ""),
        where);
  }
  Tensor result = *this;
  for (size_t i = 0; i < order.size(); ++i) result.dims_[i] = dims_[static_cast<size_t>(order[i])];
  return result;
}

Tensor Tensor::broadcast(int64_t dim, int64_t size, const Where& where) const {
  check_viewed("broadcast", where);
  check_dim(*this, "broadcast", dim, first_free(*this), ndim(), where);
  if (this->size(dim) != 1 || size < 1 || size > kMostElements / numel()) {
    throw KernelError(
        "tensor.broadcast",
        format("broadcast of dimension {} of {} to {}: only a dimension of size 1 is seen more often", dim,
               describe(), size),
        where);
  }
  Tensor result = *this;
  result.dims_[static_cast<size_t>(dim)] = {size, 0};
  return result;
}

Tensor Tensor::expand_dim(int64_t dim, const Where& where) const {
  check_viewed("expand_dim", where);
  check_dim(*this, "expand_dim", dim, first_free(*this), ndim() + 1, where);
  Tensor result = *this;
  result.dims_.insert(result.dims_.begin() + dim, Dim{1, 1});
  return result;
}

Tensor Tensor::squeeze_dim(int64_t dim, const Where& where) const {
  check_viewed("squeeze_dim", where);
  check_dim(*this, "squeeze_dim", dim, first_free(*this), ndim(), where);
  const int64_t fewest = is_on_chip(buffer()) ? 2 : 1;
  if (size(dim) != 1 || ndim() <= fewest) {
    throw KernelError(
        "tensor.squeeze",
        format("squeeze_dim of dimension {} of {}: its size is to be 1, and {} dimension(s) remain", dim,
               describe(), fewest),
        where);
  }
  Tensor result = *this;
  result.dims_.erase(result.dims_.begin() + dim);
  return result;
}

Tensor Tensor::flatten_dims(int64_t first, int64_t last, const Where& where) const {
  check_viewed("flatten_dims", where);
  check_dim(*this, "flatten_dims", first, first_free(*this), ndim(), where);
  check_dim(*this, "flatten_dims", last, first, ndim(), where);
  std::vector<int64_t> sizes = shape();
  for (int64_t i = first; i < last; ++i) sizes[static_cast<size_t>(last)] *= sizes[static_cast<size_t>(i)];
  sizes.erase(sizes.begin() + first, sizes.begin() + last);
  return reshape(sizes, where);
}

Tensor Tensor::view(Dtype dtype, const Where& where) const {
  check_viewed("view", where);
  const int64_t from = itemsize(dtype_), to = itemsize(dtype);
  const auto refuse = [&](std::string_view why) {
    throw KernelError("tensor.view-dtype", format("view of {} as {}: {}", describe(), dtype_name(dtype), why),
                      where);
  };
  Tensor result = *this;
  result.dtype_ = dtype;
  if (from == to) return result;
  if (indirection_.kind != Indirection::Kind::none)
    refuse("it has an offset known at run time; view it before .ap");
  const auto rescaled = [&](int64_t elements, std::string_view what) {
    if (elements * from % to != 0)
      refuse(format("its {} of {} bytes is no multiple of {}", what, elements * from, to));
    return elements * from / to;
  };
  const size_t first = is_on_chip(buffer()) ? 1 : 0;
  for (size_t i = first; i + 1 < dims_.size(); ++i) {
    if (dims_[i].count != 1) result.dims_[i].stride = rescaled(dims_[i].stride, "step");
  }
  const Dim last = dims_.back();
  if (last.stride != 1 && last.count != 1) refuse("the elements of its last dimension are not neighbours");
  result.dims_.back() = {rescaled(last.count, "last dimension"), 1};
  result.offset_ = rescaled(offset_, "offset");
  const int64_t begin =
      is_on_chip(buffer()) ? allocation_->byte_offset : reinterpret_cast<intptr_t>(allocation_->data);
  if (begin % to != 0) refuse(format("it begins at byte {}", begin));
  result.base_shape_ = result.shape();
  return result;
}

}  // namespace titan::nki
