#include <atomic>

#include "titan/nki/memory.h"

namespace titan::nki {
namespace {

/// Calls `visit(word, mask)` for the words that hold bits begin .. begin + count - 1 until it gives false.
template <class Visit>
bool each_word(int64_t begin, int64_t count, Visit visit) {
  if (count <= 0) return true;
  constexpr uint64_t kAll = ~uint64_t{0};
  const int64_t end = begin + count;
  auto word = static_cast<size_t>(begin / 64);
  const auto last = static_cast<size_t>(end / 64);
  const uint64_t head = kAll << (begin % 64), tail = ~(kAll << (end % 64));
  if (word == last) return visit(word, head & tail);
  if (!visit(word, head)) return false;
  // Most words are whole, which leaves nothing to compute for their mask.
  for (++word; word < last; ++word) {
    if (!visit(word, kAll)) return false;
  }
  return tail == 0 || visit(last, tail);
}

// Relaxed: barriers of the kernel order the cores' reads and writes; here only words must not tear.
uint64_t load_word(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_relaxed);
}

}  // namespace

WrittenBits::WrittenBits(int64_t bytes, bool written)
    : words_(static_cast<size_t>((bytes + 63) / 64), written ? ~uint64_t{0} : 0) {}

void WrittenBits::mark(int64_t begin, int64_t count) {
  each_word(begin, count, [&](size_t word, uint64_t mask) {
    std::atomic_ref<uint64_t> bits(words_[word]);
    if (mask == ~uint64_t{0}) {
      bits.store(mask, std::memory_order_relaxed);
    } else if ((bits.load(std::memory_order_relaxed) & mask) != mask) {
      bits.fetch_or(mask, std::memory_order_relaxed);
    }
    return true;
  });
}

void WrittenBits::clear(int64_t begin, int64_t count) {
  each_word(begin, count, [&](size_t word, uint64_t mask) {
    std::atomic_ref<uint64_t> bits(words_[word]);
    if (mask == ~uint64_t{0}) {
      bits.store(0, std::memory_order_relaxed);
    } else {
      bits.fetch_and(~mask, std::memory_order_relaxed);
    }
    return true;
  });
}

bool WrittenBits::covers(int64_t begin, int64_t count) const {
  return each_word(begin, count,
                   [&](size_t word, uint64_t mask) { return (load_word(words_[word]) & mask) == mask; });
}

bool WrittenBits::touches(int64_t begin, int64_t count) const {
  return !each_word(begin, count,
                    [&](size_t word, uint64_t mask) { return (load_word(words_[word]) & mask) == 0; });
}

}  // namespace titan::nki
