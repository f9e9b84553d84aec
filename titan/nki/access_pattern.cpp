#include <algorithm>
#include <functional>
#include <numeric>

#include "titan/base/error.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"
#include "titan/nki/register.h"
#include "titan/nki/strides.h"
#include "titan/nki/tensor.h"

namespace titan::nki {
namespace {

/// What `.ap` is called on, for its checks and messages.
struct PatternContext {
  const Tensor& base;
  const AccessPattern& pattern;
  Dtype dtype;
  const std::source_location& where;

  bool on_chip() const { return is_on_chip(base.buffer()); }
  /// Elements of `dtype` in the allocation; on chip in one of its partitions.
  int64_t extent() const {
    const Allocation& allocation = *base.allocation();
    return (on_chip() ? allocation.partition_bytes : allocation.bytes) / itemsize(dtype);
  }
  [[noreturn]] void refuse(std::string_view rule, std::string_view why) const {
    std::string pairs;
    for (const auto& [stride, count] : pattern.pattern) {
      pairs += (pairs.empty() ? "" : ", ") + format("[{}, {}]", stride, count);
    }
    throw KernelError(rule, format("ap of {} with pattern [{}]: {}", base.describe(), pairs, why), where);
  }
};

/// The lowest and highest element that `dims` reach from `offset`; refused outside of 0 .. extent - 1.
int64_t check_reach(const PatternContext& context, const std::vector<Dim>& dims, int64_t offset) {
  const int64_t extent = context.extent();
  int64_t low = offset, high = offset;
  bool inside = offset >= 0 && offset < extent;
  for (const Dim& dim : dims) {
    if (dim.count == 1 || dim.stride == 0 || !inside) continue;
    // Compared before they are multiplied, for no product of a wrong pattern to overflow.
    inside = dim.stride > -extent && dim.stride < extent && dim.count - 1 <= extent / std::abs(dim.stride);
    if (inside) (dim.stride < 0 ? low : high) += (dim.count - 1) * dim.stride;
  }
  if (!inside || low < 0 || high >= extent) {
    context.refuse("ap.bounds", format("it leaves the {} elements of {}{} (offset {})", extent,
                                       context.on_chip() ? "a partition of " : "", "the tensor", offset));
  }
  return high;
}

void check_offsets_tensor(const PatternContext& context, const Tensor& offsets, int64_t count,
                          std::string_view name) {
  const bool fits = offsets.defined() && offsets.buffer() == Buffer::sbuf && offsets.numel() == count &&
                    offsets.partitions() == count &&
                    (offsets.dtype() == Dtype::int32 || offsets.dtype() == Dtype::uint32) &&
                    offsets.indirection().kind == Tensor::Indirection::Kind::none;
  if (fits) return;
  context.refuse("ap.offset-tensor", format("its {} is {}, and is to be sbuf[{}, 1] int32 or uint32", name,
                                            offsets.describe(), count));
}

/// Elements that one index is worth: the product of the base's sizes to the right of `indirect_dim`.
Tensor::Indirection indirection_of(const PatternContext& context, const std::vector<int64_t>& base_shape) {
  using Kind = Tensor::Indirection::Kind;
  const AccessPattern& pattern = context.pattern;
  const Tensor *scalar = pattern.scalar_offset.tensor, *vector = pattern.vector_offset.tensor;
  const Register* number = pattern.scalar_offset.number;
  const int given = (number != nullptr) + (scalar != nullptr) + (vector != nullptr);
  Tensor::Indirection indirection;
  if (given == 0) return indirection;
  if (vector != nullptr && context.on_chip()) {
    context.refuse("ap.vector-offset-hbm", "a vector offset gathers or scatters rows of HBM only");
  }
  if (given > 1) context.refuse("ap.one-indirection", "it has more than one offset known at run time");
  const auto dims = static_cast<int64_t>(base_shape.size());
  const int64_t first = context.on_chip() ? 1 : 0;
  const int64_t last = vector != nullptr ? 0 : dims - 1;
  if (pattern.indirect_dim < first || pattern.indirect_dim > last) {
    context.refuse(
        "ap.indirect-dim",
        format("indirect_dim {} is not in {} .. {}, of the tensor's shape {}{}", pattern.indirect_dim, first,
               last, shape_text(base_shape),
               context.on_chip() ? " (on chip partitions are not reached by a run-time offset)" : ""));
  }
  const auto right = base_shape.begin() + pattern.indirect_dim + 1;
  const int64_t right_bytes =
      std::accumulate(right, base_shape.end(), itemsize(context.base.dtype()), std::multiplies<>());
  if (right_bytes % itemsize(context.dtype) != 0) {
    context.refuse("ap.indirect-dim",
                   format("{} bytes an index are no multiple of {}", right_bytes, dtype_name(context.dtype)));
  }
  indirection.stride = right_bytes / itemsize(context.dtype);
  indirection.limit = base_shape[static_cast<size_t>(pattern.indirect_dim)];
  indirection.kind = vector != nullptr ? Kind::vector : Kind::scalar;
  if (number != nullptr) {
    indirection.scalar_register = std::make_shared<const Register>(*number);
  } else if (scalar != nullptr) {
    check_offsets_tensor(context, *scalar, 1, "scalar_offset");
    indirection.offsets = std::make_shared<const Tensor>(*scalar);
  } else {
    check_offsets_tensor(context, *vector, pattern.pattern[0].second, "vector_offset");
    indirection.offsets = std::make_shared<const Tensor>(*vector);
  }
  return indirection;
}

/// A tensor's own offset in elements of the pattern's dtype.
int64_t rescaled_offset(const PatternContext& context) {
  const int64_t bytes = context.base.offset() * itemsize(context.base.dtype());
  const int64_t item = itemsize(context.dtype);
  const Allocation& allocation = *context.base.allocation();
  const int64_t begin = context.on_chip() ? allocation.byte_offset
                                          : static_cast<int64_t>(reinterpret_cast<intptr_t>(allocation.data));
  if ((begin + bytes) % item != 0 || bytes % item != 0) {
    context.refuse("tensor.view-dtype",
                   format("it begins at a byte that no {} begins at", dtype_name(context.dtype)));
  }
  return bytes / item;
}

}  // namespace

Tensor Tensor::ap(const AccessPattern& pattern, const Where& where) const {
  check_defined("ap", where);
  const PatternContext context{*this, pattern, pattern.dtype.value_or(dtype_), where};
  if (indirection_.kind != Indirection::Kind::none) {
    context.refuse("ap.one-indirection", "the view has an offset known at run time already");
  }
  const bool on_chip = context.on_chip();
  if (pattern.pattern.size() < (on_chip ? 2U : 1U)) {
    context.refuse("ap.rank", on_chip ? "on chip it has the partitions and a free dimension at least"
                                      : "it has one pair at least");
  }
  Tensor result = *this;
  result.dtype_ = context.dtype;
  result.dims_.clear();
  int64_t elements = 1;
  for (const auto& [stride, count] : pattern.pattern) {
    if (count < 1) context.refuse("ap.count", format("count {} is below 1", count));
    if (count > kMostElements / elements) {
      context.refuse("ap.count", format("its counts make more than {} elements", with_commas(kMostElements)));
    }
    elements *= count;
    result.dims_.push_back({count, stride});
  }
  int64_t added = pattern.offset.value_or(0);
  if (added < -kMostElements || added > kMostElements)
    context.refuse("ap.bounds", format("offset {} leaves the tensor", added));
  if (on_chip) {
    const int64_t free = context.extent();
    if (result.dims_[0].stride != free) {
      context.refuse("ap.partition-stride",
                     format("on chip the first stride is the elements of one partition, {}", free));
    }
    if (added < 0) context.refuse("ap.bounds", format("offset {} is below 0", added));
    result.partition_offset_ += added / free;
    added %= free;
    if (result.partition_offset_ + result.dims_[0].count > allocation_->num_partitions) {
      context.refuse("ap.bounds", format("partitions {} .. {} are not in 0 .. {}", result.partition_offset_,
                                         result.partition_offset_ + result.dims_[0].count - 1,
                                         allocation_->num_partitions - 1));
    }
    result.dims_[0].stride = 1;
  }
  // A stride that takes no step is of no size in particular.
  for (Dim& dim : result.dims_) dim.stride = dim.count == 1 ? 1 : dim.stride;
  result.offset_ = rescaled_offset(context) + added;
  result.indirection_ = indirection_of(context, base_shape_);
  if (result.indirection_.kind == Indirection::Kind::vector) result.dims_[0].stride = 0;

  const std::vector<Dim> reached(result.dims_.begin() + (on_chip ? 1 : 0), result.dims_.end());
  const int64_t highest = check_reach(context, reached, result.offset_);
  Indirection& indirection = result.indirection_;
  if (indirection.kind != Indirection::Kind::none) {
    indirection.limit =
        std::min(indirection.limit, (context.extent() - 1 - highest) / indirection.stride + 1);
  }
  return result;
}

}  // namespace titan::nki
