#include "titan/data/tokenizer/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

namespace titan {

namespace {

/// Up to this many symbols a scan for the lowest rank beats a heap.
constexpr size_t kShortWord = 48;

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

void MergeTable::reserve(size_t count) {
  const size_t size = std::bit_ceil(std::max<size_t>(count * 2, 2));
  slots_.assign(size, {});
  shift_ = 64 - static_cast<uint32_t>(std::countr_zero(size));
}

size_t MergeTable::slot_of(uint64_t pair) const {
  size_t slot = (pair * 0x9E3779B97F4A7C15u) >> shift_;
  while (slots_[slot].pair != pair && slots_[slot].pair != UINT64_MAX)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = pair_of(left, right);
  slots_[slot_of(pair)] = {pair, merge};
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot_of(pair_of(left, right))].merge;
}

void MergeTable::apply(std::vector<int32_t>& symbols) const {
  if (symbols.size() < 2 || slots_.empty()) return;
  if (symbols.size() <= kShortWord)
    apply_short(symbols);
  else
    apply_long(symbols);
}

void MergeTable::apply_short(std::vector<int32_t>& symbols) const {
  std::array<Merge, kShortWord> merges;  // merges[i] joins symbols i and i + 1
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (!merges[best].exists()) break;
    symbols[best] = merges[best].id;
    --count;
    for (size_t i = best + 1; i < count; ++i) symbols[i] = symbols[i + 1];
    for (size_t i = best + 1; i + 1 < count; ++i) merges[i] = merges[i + 1];
    if (best > 0) merges[best - 1] = find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

void MergeTable::apply_long(std::vector<int32_t>& symbols) const {
  constexpr uint32_t kNone = UINT32_MAX;
  struct Links {
    uint32_t previous;
    uint32_t next;
  };
  struct Candidate {
    uint32_t rank;
    uint32_t position;
    int32_t left;
    int32_t right;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  const auto size = static_cast<uint32_t>(symbols.size());
  std::vector<Links> links(size);
  for (uint32_t i = 0; i < size; ++i) links[i] = {i == 0 ? kNone : i - 1, i + 1 == size ? kNone : i + 1};

  std::vector<Candidate> storage;
  storage.reserve(size);
  const auto candidate = [&](uint32_t left, auto&& add) {
    if (left == kNone || links[left].next == kNone) return;
    const uint32_t right = links[left].next;
    const Merge merge = find(symbols[left], symbols[right]);
    if (merge.exists()) add(Candidate{merge.rank, left, symbols[left], symbols[right]});
  };
  for (uint32_t i = 0; i < size; ++i) candidate(i, [&](Candidate c) { storage.push_back(c); });
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap({}, std::move(storage));

  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    const uint32_t left = top.position;
    const uint32_t right = links[left].next;
    // Symbols only grow, so a candidate whose symbols are gone can never come back.
    if (right == kNone || symbols[left] != top.left || symbols[right] != top.right) continue;
    symbols[left] = find(top.left, top.right).id;
    symbols[right] = -1;
    links[left].next = links[right].next;
    if (links[right].next != kNone) links[links[right].next].previous = left;
    links[right].next = kNone;
    candidate(links[left].previous, [&](Candidate c) { heap.push(c); });
    candidate(left, [&](Candidate c) { heap.push(c); });
  }
  std::erase(symbols, -1);
}

}  // namespace titan
