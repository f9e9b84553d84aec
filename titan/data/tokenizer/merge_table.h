#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace titan {

/// The merges of a BPE model: for a pair of neighbouring ids, its rank and the id that replaces it.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = UINT32_MAX;
    int32_t id = -1;
    bool exists() const { return id >= 0; }
  };

  /// Makes room for `count` merges; call once, before `insert`.
  void reserve(size_t count);
  /// A pair that is there already takes the later rank, as in `tokenizers`.
  void insert(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;

  /// Applies the merges to `symbols`, lowest rank first and leftmost among equals, until none is left. Long
  /// words take O(n log n).
  void apply(std::vector<int32_t>& symbols) const;

 private:
  struct Slot {
    uint64_t pair = UINT64_MAX;
    Merge merge;
  };

  size_t slot_of(uint64_t pair) const;
  void apply_short(std::vector<int32_t>& symbols) const;
  void apply_long(std::vector<int32_t>& symbols) const;

  std::vector<Slot> slots_;
  uint32_t shift_ = 63;
};

}  // namespace titan
