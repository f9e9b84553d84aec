#include "titan/nki/tensor.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "titan/base/error.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"

namespace titan::nki {

std::string_view buffer_name(Buffer buffer) {
  switch (buffer) {
    case Buffer::sbuf:
      return "sbuf";
    case Buffer::psum:
      return "psum";
    case Buffer::private_hbm:
      return "private_hbm";
    case Buffer::shared_hbm:
      return "shared_hbm";
  }
  return "";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

Tensor::Tensor(std::shared_ptr<Allocation> allocation, Dtype dtype, std::vector<Dim> dims, int64_t offset)
    : allocation_(std::move(allocation)), dtype_(dtype), dims_(std::move(dims)), offset_(offset) {
  base_shape_ = shape();
}

void Tensor::check_defined(std::string_view method, const Where& where) const {
  if (defined()) return;
  throw KernelError(
      "tensor.undefined",
      format("{} of an undefined tensor: a Tensor() has no memory, make one by nl::ndarray", method), where);
}

Buffer Tensor::buffer(const Where& where) const {
  check_defined("buffer", where);
  return allocation_->buffer;
}

const std::string& Tensor::name(const Where& where) const {
  check_defined("name", where);
  return allocation_->name;
}

int64_t Tensor::size(int64_t dim, const Where& where) const {
  check_defined("size", where);
  if (dim >= 0 && dim < ndim()) return dims_[static_cast<size_t>(dim)].count;
  throw KernelError("tensor.dimension",
                    format("size of {}: dimension {} is not in 0 .. {}", describe(), dim, ndim() - 1), where);
}

std::vector<int64_t> Tensor::shape() const {
  std::vector<int64_t> sizes;
  sizes.reserve(dims_.size());
  for (const Dim& dim : dims_) sizes.push_back(dim.count);
  return sizes;
}

bool Tensor::is_contiguous() const {
  int64_t stride = 1;
  const auto first = dims_.rend() - (defined() && is_on_chip(buffer()) ? 1 : 0);
  for (auto dim = dims_.rbegin(); dim != first; ++dim) {
    if (dim->count != 1 && dim->stride != stride) return false;
    stride *= dim->count;
  }
  return indirection_.kind == Indirection::Kind::none;
}

int64_t Tensor::numel() const {
  return std::accumulate(dims_.begin(), dims_.end(), int64_t{1},
                         [](int64_t product, const Dim& dim) { return product * dim.count; });
}

int64_t Tensor::free_size(const Where& where) const {
  int64_t product = 1;
  check_defined("free_size", where);
  for (size_t i = 1; i < dims_.size(); ++i) product *= dims_[i].count;
  return product;
}

std::string Tensor::describe() const {
  if (!defined()) return "an undefined tensor";
  const std::string named = name().empty() ? "" : name() + " ";
  return named + std::string(buffer_name(buffer())) + shape_text(shape()) + " " +
         std::string(dtype_name(dtype_));
}

}  // namespace titan::nki
