#include "titan/nki/transfer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "titan/nki/error.h"
#include "titan/nki/shared_accesses.h"

namespace titan::nki {

namespace {

constexpr int64_t kTransferChunk = 1024;  // elements that a conversion holds at a time

template <int kBytes>
void move_strided(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
                  int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::byte element[kBytes];
    std::memcpy(element, from + i * from_stride, kBytes);
    std::memcpy(to + i * to_stride, element, kBytes);
  }
}

/// Elements of `item` bytes: one memmove where both sides are dense, for views may overlap.
void move_elements(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t item,
                   int64_t count) {
  if (to_stride == item && from_stride == item) {
    std::memmove(to, from, static_cast<size_t>(count * item));
  } else if (item == 1) {
    move_strided<1>(to, to_stride, from, from_stride, count);
  } else if (item == 2) {
    move_strided<2>(to, to_stride, from, from_stride, count);
  } else {
    move_strided<4>(to, to_stride, from, from_stride, count);
  }
}

}  // namespace

Stream::Stream(const Tensor& view, const char* name, const Instruction& instruction,
               const std::vector<int64_t>& order)
    : view_(&view),
      name_(name),
      instruction_(&instruction),
      order_(order),
      item_(nki::itemsize(view.dtype())) {
  Allocation& memory = *view.allocation();
  const int64_t offset = view.offset() * item_;
  std::vector<Loop> loops;
  for (const Dim& dim : view.dims()) loops.push_back({dim.count, dim.stride * item_, dim.stride * item_});
  if (is_on_chip(view.buffer())) {
    require_core_lives(view);
    ChipMemory& chip = *memory.memory;
    const int64_t partition = first_partition(view);
    const int64_t byte = memory.byte_offset + offset;
    base_ = chip.at(partition, byte);
    base_bit_ = chip.bit(partition, byte);
    written_ = &chip.written();
    const int64_t step = view.dims()[0].stride;
    loops[0] = {view.dims()[0].count, step * (chip.at(1, 0) - chip.at(0, 0)),
                step * (chip.bit(1, 0) - chip.bit(0, 0))};
    room_below_ = byte;
    room_above_ = chip.partition_bytes() - byte;
  } else {
    base_ = memory.data + offset;
    base_bit_ = offset;
    written_ = memory.written.get();
    room_below_ = offset;
    room_above_ = memory.bytes - offset;
    if (view.buffer() == Buffer::shared_hbm && is_in_kernel()) accesses_ = current_core().shared_accesses();
  }
  if (order_.empty()) {
    order_.resize(loops.size());
    std::iota(order_.begin(), order_.end(), int64_t{0});
  }
  for (const int64_t dim : order_) loops_.push_back(loops[static_cast<size_t>(dim)]);
  merge_loops();
}

void Stream::merge_loops() {
  std::vector<Loop> merged;
  for (const Loop& loop : loops_) {
    if (loop.count == 1) continue;
    const bool continues = !merged.empty() && merged.back().bytes == loop.count * loop.bytes &&
                           merged.back().bits == loop.count * loop.bits;
    if (continues) {
      merged.back() = {merged.back().count * loop.count, loop.bytes, loop.bits};
    } else {
      merged.push_back(loop);
    }
  }
  if (merged.empty()) merged.push_back({1, item_, item_});
  loops_ = std::move(merged);
  seek(0);
}

void Stream::seek(int64_t element) {
  indices_.assign(loops_.size(), 0);
  position_ = element;
  data_ = base_ + moved_ * item_;
  bit_ = base_bit_ + moved_ * item_;
  for (size_t i = loops_.size(); i-- > 0;) {
    const Loop& loop = loops_[i];
    // The outermost index may reach its count: nothing is left then.
    indices_[i] = i == 0 ? element : element % loop.count;
    element /= loop.count;
    data_ += indices_[i] * loop.bytes;
    bit_ += indices_[i] * loop.bits;
  }
}

Stream::Piece Stream::next() const {
  const Loop& inner = loops_.back();
  return {data_, inner.count - indices_.back(), inner.bytes};
}

void Stream::advance(int64_t count) {
  const Loop& inner = loops_.back();
  position_ += count;
  indices_.back() += count;
  data_ += count * inner.bytes;
  bit_ += count * inner.bits;
  for (size_t i = loops_.size() - 1; i > 0 && indices_[i] == loops_[i].count; --i) {
    data_ += loops_[i - 1].bytes - loops_[i].count * loops_[i].bytes;
    bit_ += loops_[i - 1].bits - loops_[i].count * loops_[i].bits;
    indices_[i] = 0;
    ++indices_[i - 1];
  }
}

void Stream::check_written(int64_t count) const {
  if (written_ == nullptr) return;
  const int64_t stride = loops_.back().bits;
  if (stride == item_ && written_->covers(bit_, count * item_)) return;
  for (int64_t i = 0; i < count; ++i) {
    if (!written_->covers(bit_ + i * stride, item_)) fail_unwritten(position_ + i);
  }
}

void Stream::mark(int64_t count) const {
  if (written_ == nullptr) return;
  const int64_t stride = loops_.back().bits;
  if (stride == item_) return written_->mark(bit_, count * item_);
  for (int64_t i = 0; i < count; ++i) written_->mark(bit_ + i * stride, item_);
}

void Stream::note_access(int64_t count, bool writes) const {
  if (accesses_ == nullptr) return;
  const SharedAccesses::Act act{instruction_->name(), instruction_->where, writes};
  int64_t whole = 1;
  for (const Loop& loop : loops_) whole *= loop.count;
  if (position_ == 0 && count == whole) {
    HostPattern pattern{reinterpret_cast<int64_t>(data_), item_, {}};
    for (const Loop& loop : loops_) pattern.loops.emplace_back(loop.count, loop.bytes);
    return accesses_->note(act, *view_, std::move(pattern));
  }
  for (Stream rest = *this; count > 0;) {
    const int64_t run = std::min(rest.next().count, count);
    accesses_->note(act, *view_,
                    {reinterpret_cast<int64_t>(rest.data_), item_, {{run, loops_.back().bytes}}});
    rest.advance(run);
    count -= run;
  }
}

void Stream::fail_unwritten(int64_t element) const {
  std::vector<std::string> places(order_.size());
  if (row_ >= 0) places[0] = std::to_string(row_);
  for (size_t i = order_.size(); i-- > (row_ >= 0 ? 1U : 0U);) {
    const int64_t size = view_->size(order_[i]);
    places[static_cast<size_t>(order_[i])] = std::to_string(element % size);
    element /= size;
  }
  throw KernelError("memory.unwritten",
                    format("{} reads element [{}] of {}, {}, which was never written{}",
                           instruction_->describe(), join(places, ", "), name_, view_->describe(),
                           accesses_ == nullptr
                               ? ""
                               : " so far (if the other core writes it, put a core_barrier between the two)"),
                    instruction_->where);
}

bool Stream::move_to(int64_t elements) {
  int64_t lowest = elements * item_, highest = lowest + item_;
  const bool on_chip = is_on_chip(view_->buffer());
  for (size_t i = on_chip || row_ >= 0 ? 1 : 0; i < view_->dims().size(); ++i) {
    const int64_t reach = (view_->dims()[i].count - 1) * view_->dims()[i].stride * item_;
    (reach < 0 ? lowest : highest) += reach;
  }
  if (lowest < -room_below_ || highest > room_above_) return false;
  moved_ = elements;
  seek(0);
  return true;
}

void Stream::take_row(int64_t row) {
  row_ = row;
  loops_.clear();
  for (size_t i = 1; i < view_->dims().size(); ++i) {
    const Dim& dim = view_->dims()[i];
    loops_.push_back({dim.count, dim.stride * item_, dim.stride * item_});
  }
  merge_loops();
}

void transfer(Stream& to, Stream& from, int64_t count) {
  const int64_t item = to.itemsize();
  const bool same = to.dtype() == from.dtype();
  std::byte raw[kTransferChunk * 4];
  float floats[kTransferChunk];
  from.note_access(count, false);
  to.note_access(count, true);
  while (count > 0) {
    const Stream::Piece source = from.next(), target = to.next();
    int64_t n = std::min({source.count, target.count, count});
    if (!same) n = std::min(n, kTransferChunk);
    from.check_written(n);
    if (same) {
      move_elements(target.data, target.stride, source.data, source.stride, item, n);
    } else {
      const std::byte* dense = source.data;
      if (source.stride != from.itemsize()) {
        move_elements(raw, from.itemsize(), source.data, source.stride, from.itemsize(), n);
        dense = raw;
      }
      to_float(dense, from.dtype(), floats, n);
      if (target.stride == item) {
        from_float(floats, to.dtype(), target.data, n);
      } else {
        from_float(floats, to.dtype(), raw, n);
        move_elements(target.data, target.stride, raw, item, item, n);
      }
    }
    to.mark(n);
    from.advance(n);
    to.advance(n);
    count -= n;
  }
}

void read_floats(Stream& from, float* to, int64_t count) {
  from.note_access(count, false);
  std::byte raw[kTransferChunk * 4];
  while (count > 0) {
    const Stream::Piece source = from.next();
    const int64_t n = std::min({source.count, count, kTransferChunk});
    from.check_written(n);
    move_elements(raw, from.itemsize(), source.data, source.stride, from.itemsize(), n);
    to_float(raw, from.dtype(), to, n);
    from.advance(n);
    to += n;
    count -= n;
  }
}

void write_floats(Stream& to, const float* from, int64_t count) {
  to.note_access(count, true);
  std::byte raw[kTransferChunk * 4];
  while (count > 0) {
    const Stream::Piece target = to.next();
    const int64_t n = std::min({target.count, count, kTransferChunk});
    from_float(from, to.dtype(), raw, n);
    move_elements(target.data, target.stride, raw, to.itemsize(), to.itemsize(), n);
    to.mark(n);
    to.advance(n);
    from += n;
    count -= n;
  }
}

}  // namespace titan::nki
