#include "titan/nki/rows.h"

#include <algorithm>
#include <cstring>

#include "titan/base/error.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"
#include "titan/nki/register.h"
#include "titan/nki/strides.h"

namespace titan::nki {
namespace {

/// A view's dimensions from `first` on as loops, the last one innermost.
std::vector<Dim> loops_of(const Tensor& view, int64_t first) {
  std::vector<Dim> loops = merged_dims(view.dims(), first);
  if (loops.empty()) loops.push_back({1, 1});
  return loops;
}

/// Where the innermost loop begins, for each turn of the others, in elements.
std::vector<int64_t> run_begins(const std::vector<Dim>& loops) {
  std::vector<int64_t> begins = {0};
  for (size_t i = 0; i + 1 < loops.size(); ++i) {
    std::vector<int64_t> inner;
    inner.reserve(begins.size() * static_cast<size_t>(loops[i].count));
    for (int64_t begin : begins) {
      for (int64_t j = 0; j < loops[i].count; ++j) inner.push_back(begin + j * loops[i].stride);
    }
    begins = std::move(inner);
  }
  return begins;
}

template <class Bits>
void gather_bits(const std::byte* from, int64_t stride, std::byte* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * int64_t{sizeof(Bits)}, from + i * stride, sizeof(Bits));
}

template <class Bits>
void scatter_bits(const std::byte* from, std::byte* to, int64_t stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * stride, from + i * int64_t{sizeof(Bits)}, sizeof(Bits));
}

void gather(const std::byte* from, int64_t stride, int64_t item, std::byte* to, int64_t count) {
  if (stride == item)
    std::memcpy(to, from, static_cast<size_t>(count * item));
  else if (item == 4)
    gather_bits<uint32_t>(from, stride, to, count);
  else if (item == 2)
    gather_bits<uint16_t>(from, stride, to, count);
  else
    gather_bits<uint8_t>(from, stride, to, count);
}

void scatter(const std::byte* from, std::byte* to, int64_t stride, int64_t item, int64_t count) {
  if (stride == item)
    std::memcpy(to, from, static_cast<size_t>(count * item));
  else if (item == 4)
    scatter_bits<uint32_t>(from, to, stride, count);
  else if (item == 2)
    scatter_bits<uint16_t>(from, to, stride, count);
  else
    scatter_bits<uint8_t>(from, to, stride, count);
}

/// Bytes for a row between gathering and converting, kept for the thread's next row.
std::byte* row_scratch(int64_t bytes) {
  thread_local std::vector<std::byte> scratch;
  if (scratch.size() < static_cast<size_t>(bytes)) scratch.resize(static_cast<size_t>(bytes));
  return scratch.data();
}

int64_t scalar_index(const Tensor::Indirection& indirection) {
  if (indirection.scalar_register) return indirection.scalar_register->value();
  std::byte bits[4];
  Rows(*indirection.offsets).read_bits(0, bits);
  int32_t index = 0;
  std::memcpy(&index, bits, sizeof(index));
  return index;
}

}  // namespace

Tensor resolved(const Tensor& view) {
  const Tensor::Indirection& indirection = view.indirection();
  if (indirection.kind == Tensor::Indirection::Kind::none) return view;
  check(indirection.kind == Tensor::Indirection::Kind::scalar, "the offset is a scalar");
  const int64_t index = scalar_index(indirection);
  if (index < 0 || index >= indirection.limit) {
    throw KernelError("ap.scalar-offset-bounds",
                      format("the scalar offset of {} is {}, and is to be in 0 .. {}", view.describe(), index,
                             indirection.limit - 1));
  }
  Tensor fixed = view;
  fixed.offset_ += index * indirection.stride;
  fixed.indirection_ = {};
  return fixed;
}

Rows::Rows(const Tensor& view) : view_(&view), allocation_(view.allocation().get()) {
  check(is_on_chip(view.buffer()), "the view is on chip");
  check(!allocation_->without_data, "the tensor has data");
  require_core_lives(view);
  first_ = first_partition(view);
  partitions_ = view.partitions();
  count_ = view.free_size();
  item_ = itemsize(view.dtype());
  const bool direct = view.indirection().kind == Tensor::Indirection::Kind::none;
  first_byte_ = (direct ? view.offset() : resolved(view).offset()) * item_;
  const std::vector<Dim> loops = loops_of(view, 1);
  runs_ = run_begins(loops);
  for (int64_t& begin : runs_) begin *= item_;
  run_count_ = loops.back().count;
  stride_ = loops.back().stride * item_;
  int64_t low = 0, high = 0;
  for (const Dim& loop : loops) (loop.stride < 0 ? low : high) += (loop.count - 1) * loop.stride * item_;
  lowest_ = low;
  span_ = high - low + item_;
}

std::byte* Rows::partition_begin(int64_t partition) const {
  return allocation_->memory->at(first_ + partition, allocation_->byte_offset + first_byte_);
}

int64_t Rows::partition_bit(int64_t partition) const {
  return allocation_->memory->bit(first_ + partition, allocation_->byte_offset + first_byte_);
}

template <class Visit>
void Rows::each_written_run(int64_t partition, Visit visit) const {
  const int64_t origin = partition_bit(partition);
  for (int64_t begin : runs_) {
    if (stride_ == item_) {
      visit(origin + begin, run_count_ * item_);
      continue;
    }
    for (int64_t i = 0; i < run_count_; ++i) visit(origin + begin + i * stride_, item_);
  }
}

void Rows::check_written(int64_t partition) const {
  const WrittenBits& bits = allocation_->memory->written();
  if (bits.covers(partition_bit(partition) + lowest_, span_)) return;
  int64_t element = 0;
  each_written_run(partition, [&](int64_t begin, int64_t bytes) {
    if (bits.covers(begin, bytes)) {
      element += bytes / item_;
      return;
    }
    for (int64_t done = 0; done < bytes; done += item_, ++element) {
      if (bits.covers(begin + done, item_)) continue;
      throw KernelError("memory.unwritten",
                        format("{} is read before it was written: partition {}, element {} of {}",
                               view_->describe(), partition, element, count_));
    }
  });
}

void Rows::mark_written(int64_t partition) const {
  WrittenBits& bits = allocation_->memory->written();
  each_written_run(partition, [&](int64_t begin, int64_t bytes) { bits.mark(begin, bytes); });
}

void Rows::read(int64_t partition, float* to) const {
  check_written(partition);
  const std::byte* from = partition_begin(partition);
  constexpr int64_t kLongRun = 16;  // elements that make up for a call
  if (stride_ == item_ && (run_count_ >= kLongRun || runs_.size() == 1)) {
    for (int64_t begin : runs_) {
      to_float(from + begin, view_->dtype(), to, run_count_);
      to += run_count_;
    }
    return;
  }
  std::byte* bits = row_scratch(count_ * item_);
  std::byte* end = bits;
  for (int64_t begin : runs_) {
    gather(from + begin, stride_, item_, end, run_count_);
    end += run_count_ * item_;
  }
  to_float(bits, view_->dtype(), to, count_);
}

void Rows::write(int64_t partition, const float* from) const {
  if (is_contiguous()) {
    from_float(from, view_->dtype(), partition_begin(partition) + runs_[0], count_);
    return mark_written(partition);
  }
  std::byte* bits = row_scratch(count_ * item_);
  from_float(from, view_->dtype(), bits, count_);
  write_bits(partition, bits);
}

void Rows::read_bits(int64_t partition, std::byte* to) const {
  check_written(partition);
  const std::byte* from = partition_begin(partition);
  for (int64_t begin : runs_) {
    gather(from + begin, stride_, item_, to, run_count_);
    to += run_count_ * item_;
  }
}

void Rows::write_bits(int64_t partition, const std::byte* from) const {
  std::byte* to = partition_begin(partition);
  for (int64_t begin : runs_) {
    scatter(from, to + begin, stride_, item_, run_count_);
    from += run_count_ * item_;
  }
  mark_written(partition);
}

const std::byte* Rows::contiguous_read(int64_t partition) const {
  if (!is_contiguous()) return nullptr;
  check_written(partition);
  return partition_begin(partition) + runs_[0];
}

std::byte* Rows::contiguous_write(int64_t partition) const {
  if (!is_contiguous()) return nullptr;
  mark_written(partition);
  return partition_begin(partition) + runs_[0];
}

void for_each_run(const Tensor& view, const std::function<void(std::byte*, int64_t, int64_t)>& visit) {
  check(view.indirection().kind == Tensor::Indirection::Kind::none, "the view has no run-time offset");
  const Allocation& allocation = *view.allocation();
  check(!allocation.without_data, "the tensor has data");
  const int64_t item = itemsize(view.dtype());
  const bool on_chip = is_on_chip(view.buffer());
  const std::vector<Dim> loops = loops_of(view, on_chip ? 1 : 0);
  const std::vector<int64_t> begins = run_begins(loops);
  const Dim inner = loops.back();
  int64_t first = 0;
  for (int64_t partition = 0; partition < (on_chip ? view.partitions() : 1); ++partition) {
    std::byte* origin = on_chip
                            ? allocation.memory->at(first_partition(view) + partition, allocation.byte_offset)
                            : allocation.data;
    origin += view.offset() * item;
    for (int64_t begin : begins) {
      const int64_t runs = inner.stride == 1 ? 1 : inner.count;
      const int64_t count = inner.stride == 1 ? inner.count : 1;
      for (int64_t i = 0; i < runs; ++i, first += count) {
        visit(origin + (begin + i * inner.stride) * item, first, count);
      }
    }
  }
}

}  // namespace titan::nki
