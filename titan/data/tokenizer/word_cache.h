#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace titan {

/// Remembers the ids of words. Threads share it without locks: an entry, once there, stays until the end, and
/// a full neighbourhood takes no more.
class WordCache {
 public:
  WordCache();
  WordCache(WordCache&& other) noexcept;
  ~WordCache();

  /// Appends the remembered ids of `word` to `ids`; false where there are none.
  bool find(std::string_view word, uint64_t hash, std::vector<int32_t>& ids) const;
  void insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids);

  static uint64_t hash(std::string_view word);
  /// Longer words are not worth a place.
  static constexpr size_t kMaxWord = 64;

 private:
  struct Entry;
  static constexpr size_t kSlots = size_t{1} << 16;
  static constexpr size_t kProbes = 8;
  std::unique_ptr<std::atomic<const Entry*>[]> slots_;
};

}  // namespace titan
