#include "titan/nki/memory_times.h"

#include <algorithm>

#include "titan/nki/memory.h"

namespace titan::nki {
namespace {

constexpr int64_t kMaxRuns = 256;
constexpr size_t kMaxBlocks = 32;  // of a segment; more are merged, which can only make instructions wait

/// Replaces strided dimensions by byte runs. `dims` in bytes; the elements themselves are `item` long.
std::vector<std::pair<int64_t, int64_t>> runs_of(std::vector<Dim> dims, int64_t begin, int64_t item) {
  for (Dim& dim : dims) {
    if (dim.stride < 0) {
      begin += (dim.count - 1) * dim.stride;
      dim.stride = -dim.stride;
    }
    if (dim.stride == 0) dim.count = 1;
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
  int64_t num_runs = 1, length = item;
  for (const Dim& dim : dims) num_runs *= dim.count;
  std::vector<Dim> outer;
  for (const Dim& dim : dims) {
    if (dim.count == 1) continue;
    if (outer.empty() && (dim.stride <= length || num_runs > kMaxRuns)) {
      length += (dim.count - 1) * dim.stride;
      num_runs /= dim.count;
    } else {
      outer.push_back(dim);
    }
  }
  std::vector<std::pair<int64_t, int64_t>> runs = {{begin, begin + length}};
  for (const Dim& dim : outer) {
    const size_t before = runs.size();
    for (int64_t i = 1; i < dim.count; ++i)
      for (size_t r = 0; r < before; ++r)
        runs.emplace_back(runs[r].first + i * dim.stride, runs[r].second + i * dim.stride);
  }
  return runs;
}

/// The time from which `engine` may go on after `before`. An engine overwrites in order what it wrote itself,
/// and TensorE accumulates in PSUM without waiting for its own results.
double time_after(const AccessTime& before, Engine engine, bool reads) {
  const bool is_own = before.engine == engine && engine != Engine::dma;
  return is_own && (!reads || engine == Engine::tensor) ? before.end : before.visible;
}

}  // namespace

double ByteTimes::ready(const Footprint& footprint, Engine engine, bool reads, bool writes) const {
  double time = 0;
  for (const auto& [begin, end] : footprint.ranges) {
    auto it = segments_.upper_bound(begin);
    if (it != segments_.begin() && std::prev(it)->second.end > begin) --it;
    for (; it != segments_.end() && it->first < end; ++it)
      for (const Block& block : it->second.blocks)
        if (block.first < footprint.last && footprint.first < block.last && (block.is_write || writes))
          time = std::max(time, time_after(block.time, engine, block.is_write && reads));
  }
  return time;
}

void ByteTimes::note(const Footprint& footprint, const AccessTime& time, bool writes) {
  for (const auto& [begin, end] : footprint.ranges)
    note_range(begin, end, {footprint.first, footprint.last, time, writes});
}

void ByteTimes::split(int64_t byte) {
  auto it = segments_.upper_bound(byte);
  if (it == segments_.begin()) return;
  --it;
  if (it->first == byte || it->second.end <= byte) return;
  Segment right = it->second;
  it->second.end = byte;
  segments_.emplace_hint(std::next(it), byte, std::move(right));
}

/// Drops what a write to partitions [first, last) replaces, and segments that hold nothing afterwards.
ByteTimes::Segments::iterator ByteTimes::forget(Segments::iterator it, int64_t end, int32_t first,
                                                int32_t last) {
  while (it != segments_.end() && it->first < end) {
    std::erase_if(it->second.blocks,
                  [&](const Block& block) { return block.first >= first && block.last <= last; });
    it = it->second.blocks.empty() ? segments_.erase(it) : std::next(it);
  }
  return it;
}

void ByteTimes::note_range(int64_t begin, int64_t end, const Block& block) {
  split(begin);
  split(end);
  if (block.is_write) forget(segments_.lower_bound(begin), end, block.first, block.last);
  const auto add = [&](std::vector<Block>& blocks) {
    for (Block& known : blocks) {
      if (known.is_write != block.is_write || known.first != block.first || known.last != block.last)
        continue;
      if (known.time.engine != block.time.engine) continue;
      known.time.end = std::max(known.time.end, block.time.end);
      known.time.visible = std::max(known.time.visible, block.time.visible);
      return;
    }
    blocks.push_back(block);
    if (blocks.size() <= kMaxBlocks) return;
    Block merged = {block.first, block.last, {Engine::unknown, 0, 0}, true};
    for (const Block& known : blocks) {
      merged.first = std::min(merged.first, known.first);
      merged.last = std::max(merged.last, known.last);
      merged.time.visible = std::max(merged.time.visible, known.time.visible);
    }
    blocks.assign(1, merged);
  };
  auto it = segments_.lower_bound(begin);
  int64_t from = begin;
  while (from < end) {
    if (it == segments_.end() || it->first > from) {  // nobody has been here
      const int64_t to = it == segments_.end() ? end : std::min(end, it->first);
      segments_.emplace_hint(it, from, Segment{to, {block}});
      from = to;
      continue;
    }
    add(it->second.blocks);
    from = it->second.end;
    ++it;
  }
}

int64_t MemoryTimes::hbm_base(const Allocation& allocation) {
  if (allocation.data != nullptr) return static_cast<int64_t>(reinterpret_cast<uintptr_t>(allocation.data));
  // Addresses that no process has, far enough apart for any tensor.
  const auto next = (int64_t{1} << 60) + (static_cast<int64_t>(bases_.size()) << 44);
  return bases_.try_emplace(&allocation, next).first->second;
}

Footprint MemoryTimes::footprint(const Tensor& tensor) {
  const Allocation& allocation = *tensor.allocation();
  const bool on_chip = is_on_chip(allocation.buffer);
  const int64_t item = itemsize(tensor.dtype());
  Footprint result;
  result.space = allocation.buffer == Buffer::sbuf   ? Footprint::Space::sbuf
                 : allocation.buffer == Buffer::psum ? Footprint::Space::psum
                                                     : Footprint::Space::hbm;
  const int64_t base = on_chip ? allocation.byte_offset : hbm_base(allocation);
  std::vector<Dim> dims = tensor.dims();
  int64_t partitions = 1;
  if (on_chip) {
    partitions = dims[0].stride == 0 ? 1 : (dims[0].count - 1) * std::abs(dims[0].stride) + 1;
    dims.erase(dims.begin());
  }
  if (tensor.indirection().kind != Tensor::Indirection::Kind::none) {  // anywhere in it
    result.ranges = {{base, base + (on_chip ? allocation.partition_bytes : allocation.bytes)}};
    if (on_chip) result.first = static_cast<int32_t>(allocation.first_partition);
    if (on_chip) result.last = static_cast<int32_t>(allocation.first_partition + allocation.num_partitions);
    return result;
  }
  for (Dim& dim : dims) dim.stride *= item;
  result.ranges = runs_of(std::move(dims), base + tensor.offset() * item, item);
  if (on_chip) {
    result.first = static_cast<int32_t>(first_partition(tensor));
    result.last = result.first + static_cast<int32_t>(partitions);
  }
  return result;
}

double MemoryTimes::ready(const Instruction& instruction) {
  operands_.clear();
  double time = 0;
  for_each_access(instruction, [&](const Tensor& tensor, Access access) {
    operands_.push_back({footprint(tensor), access});
    const Footprint& bytes = operands_.back().bytes;
    time = std::max(time, spaces_[static_cast<size_t>(bytes.space)].ready(
                              bytes, instruction.engine, access != Access::write, access != Access::read));
  });
  return time;
}

void MemoryTimes::note(const AccessTime& time) {
  for (const auto& [bytes, access] : operands_) {
    AccessTime seen = time;
    // An engine is through with what it reads at its end; a DMA says so with its semaphore.
    if (access == Access::read && time.engine != Engine::dma) seen.visible = seen.end;
    spaces_[static_cast<size_t>(bytes.space)].note(bytes, seen, access != Access::read);
  }
}

}  // namespace titan::nki
