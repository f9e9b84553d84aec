#include "titan/distributed/shared_memory_collectives.h"

#include <c10/core/ScalarType.h>

#include <cstring>

#include "titan/base/error.h"
#include "titan/distributed/tensor_streams.h"
#include "titan/nn/placement.h"

namespace titan {
namespace {

/// Up to this many bytes read by each member, all members sum all of a small tensor: a second barrier for
/// sharing the work would cost more.
constexpr int64_t kSumAloneBytes = int64_t{256} << 10;

/// A slot holds one cell for each member that reads it.
int64_t cell_bytes(const SharedMemory& memory) {
  const int64_t bytes = memory.slot_bytes() / memory.size() / 64 * 64;
  check(bytes > 0, "a slot has a cache line for every member");
  return bytes;
}

void copy_to_cells(SharedMemory& memory, const std::vector<ByteStream>& parts, int64_t begin, int64_t cell) {
  std::byte* const slot = memory.slot(memory.index());
  for (int64_t to = 0; to < memory.size(); ++to) {
    if (to == memory.index()) continue;
    parts[static_cast<size_t>(to)].each(begin, cell, [&](const ByteStream::Part& part) {
      std::memcpy(slot + to * cell + part.position - begin, part.data, static_cast<size_t>(part.bytes));
    });
  }
}

}  // namespace

void gather_streams(SharedMemory& memory, Collective collective, const ByteStream& mine,
                    const std::vector<ByteStream>& streams, int64_t root) {
  const int64_t length = longest(streams), slot = memory.slot_bytes(), me = memory.index();
  const bool receives = root == -1 || root == me;
  memory.begin(collective, length);
  for (int64_t begin = 0; begin < std::max<int64_t>(length, 1); begin += slot) {
    memory.begin_round();
    std::byte* const own = memory.slot(me);
    if (root != me) {
      mine.each(begin, slot, [&](const ByteStream::Part& part) {
        std::memcpy(own + part.position - begin, part.data, static_cast<size_t>(part.bytes));
      });
    }
    memory.arrive();
    for (int64_t from = 0; receives && from < memory.size(); ++from) {
      if (from == me) continue;
      const std::byte* const theirs = memory.slot(from);
      streams[static_cast<size_t>(from)].each(begin, slot, [&](const ByteStream::Part& part) {
        std::memcpy(part.data, theirs + part.position - begin, static_cast<size_t>(part.bytes));
      });
    }
  }
  if (!receives) return;
  std::vector<const std::byte*> sources;
  mine.each(0, mine.length(), [&](const ByteStream::Part& part) { sources.push_back(part.data); });
  size_t i = 0;
  const ByteStream& own = streams[static_cast<size_t>(me)];
  own.each(0, own.length(), [&](const ByteStream::Part& part) {
    if (part.data != sources[i]) std::memcpy(part.data, sources[i], static_cast<size_t>(part.bytes));
    ++i;
  });
}

void reduce_streams(SharedMemory& memory, const std::vector<ByteStream>& parts,
                    std::span<std::byte* const> outs, std::span<const Reduction> reductions) {
  const int64_t length = longest(parts), cell = cell_bytes(memory), me = memory.index();
  std::vector<const std::byte*> sources(static_cast<size_t>(memory.size()));
  memory.begin(Collective::reduce_scatter, length);
  for (int64_t begin = 0; begin < std::max<int64_t>(length, 1); begin += cell) {
    memory.begin_round();
    copy_to_cells(memory, parts, begin, cell);
    memory.arrive();
    parts[static_cast<size_t>(me)].each(begin, cell, [&](const ByteStream::Part& part) {
      for (int64_t from = 0; from < memory.size(); ++from) {
        sources[static_cast<size_t>(from)] =
            from == me ? part.data : memory.slot(from) + me * cell + part.position - begin;
      }
      const Reduction& reduction = reductions[part.piece];
      const auto from_size = static_cast<int64_t>(c10::elementSize(reduction.from));
      const auto to_size = static_cast<int64_t>(c10::elementSize(reduction.to));
      reduce_in_order(reduction, outs[part.piece] + part.offset / from_size * to_size, sources,
                      part.bytes / from_size);
    });
  }
}

void all_reduce_in_place(SharedMemory& memory, std::byte* data, int64_t count, const Reduction& reduction) {
  const int64_t size = memory.size(), me = memory.index();
  const auto element = static_cast<int64_t>(c10::elementSize(reduction.from));
  const int64_t step = memory.slot_bytes() / element;
  const bool alone = count <= step && count * element * size <= kSumAloneBytes;
  std::vector<const std::byte*> sources(static_cast<size_t>(size));
  memory.begin(Collective::all_reduce, count * element);
  for (int64_t begin = 0; begin < std::max<int64_t>(count, 1); begin += step) {
    memory.begin_round();
    const int64_t n = std::min(step, count - begin);
    const Range share = alone ? Range{0, n} : chunk_of(n, size, me);
    std::byte* const mine = data + begin * element;
    std::byte* const own = memory.slot(me);
    const auto publish = [&](int64_t from, int64_t to) {
      std::memcpy(own + from * element, mine + from * element, static_cast<size_t>((to - from) * element));
    };
    publish(0, alone ? n : share.begin);
    if (!alone) publish(share.begin + share.count, n);
    memory.arrive();
    for (int64_t from = 0; from < size; ++from) {
      sources[static_cast<size_t>(from)] = (from == me ? mine : memory.slot(from)) + share.begin * element;
    }
    reduce_in_order(reduction, mine + share.begin * element, sources, share.count);
    if (alone) continue;
    publish(share.begin, share.begin + share.count);
    memory.arrive();
    for (int64_t from = 0; from < size; ++from) {
      const Range theirs = chunk_of(n, size, from);
      if (from == me) continue;
      std::memcpy(mine + theirs.begin * element, memory.slot(from) + theirs.begin * element,
                  static_cast<size_t>(theirs.count * element));
    }
  }
}

void broadcast_in_place(SharedMemory& memory, std::byte* data, int64_t bytes, int64_t root) {
  // All slots of a half are the root's.
  const int64_t step = memory.slot_bytes() * memory.size();
  memory.begin(Collective::broadcast, bytes);
  for (int64_t begin = 0; begin < std::max<int64_t>(bytes, 1); begin += step) {
    memory.begin_round();
    const auto n = static_cast<size_t>(std::min(step, bytes - begin));
    if (memory.index() == root) std::memcpy(memory.slot(0), data + begin, n);
    memory.arrive();
    if (memory.index() != root) std::memcpy(data + begin, memory.slot(0), n);
  }
}

}  // namespace titan
