#include "titan/data/tokenizer/word_cache.h"

#include <cstring>
#include <functional>

namespace titan {

/// Followed in memory by `num_ids` ids and `size` bytes.
struct WordCache::Entry {
  uint64_t hash;
  uint32_t size;
  uint32_t num_ids;

  const int32_t* ids() const { return reinterpret_cast<const int32_t*>(this + 1); }
  const char* word() const { return reinterpret_cast<const char*>(ids() + num_ids); }

  static const Entry* make(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    void* memory = ::operator new(sizeof(Entry) + ids.size_bytes() + word.size());
    auto* entry =
        new (memory) Entry{hash, static_cast<uint32_t>(word.size()), static_cast<uint32_t>(ids.size())};
    auto* after = reinterpret_cast<char*>(entry + 1);
    if (!ids.empty()) std::memcpy(after, ids.data(), ids.size_bytes());
    std::memcpy(after + ids.size_bytes(), word.data(), word.size());
    return entry;
  }
  static void release(const Entry* entry) { ::operator delete(const_cast<Entry*>(entry)); }
};

WordCache::WordCache() : slots_(new std::atomic<const Entry*>[kSlots]()) {}
WordCache::WordCache(WordCache&& other) noexcept = default;

WordCache::~WordCache() {
  for (size_t i = 0; slots_ && i < kSlots; ++i) Entry::release(slots_[i].load(std::memory_order_relaxed));
}

uint64_t WordCache::hash(std::string_view word) { return std::hash<std::string_view>{}(word); }

bool WordCache::find(std::string_view word, uint64_t hash, std::vector<int32_t>& ids) const {
  for (size_t probe = 0; probe < kProbes; ++probe) {
    const Entry* entry = slots_[(hash + probe) & (kSlots - 1)].load(std::memory_order_acquire);
    if (!entry) return false;
    if (entry->hash == hash && std::string_view(entry->word(), entry->size) == word) {
      ids.insert(ids.end(), entry->ids(), entry->ids() + entry->num_ids);
      return true;
    }
  }
  return false;
}

void WordCache::insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
  const Entry* entry = nullptr;
  for (size_t probe = 0; probe < kProbes; ++probe) {
    auto& slot = slots_[(hash + probe) & (kSlots - 1)];
    if (slot.load(std::memory_order_acquire)) continue;
    if (!entry) entry = Entry::make(word, hash, ids);
    const Entry* expected = nullptr;
    if (slot.compare_exchange_strong(expected, entry, std::memory_order_acq_rel)) return;
  }
  Entry::release(entry);
}

}  // namespace titan
