#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "titan/base/error.h"

namespace titan::neuron {

/// An allocation that does not fit. The message reads like a device's and says what holds the memory.
struct HbmFull : ValueError {
  using ValueError::ValueError;
};

/// What an allocation is for. Texts live for ever.
struct HbmOrigin {
  const char* phase = "";      ///< what the process was doing: "weights", "forward", ...
  const char* operation = "";  ///< the operator that asked: "aten::mm"
  const char* dtype = "";      ///< "float32"
};

/// One piece of memory on the books. Owned by whoever allocated it; a member of the ledger's list while it is
/// charged.
struct HbmBlock {
  int64_t bytes = 0;
  HbmOrigin origin;
  HbmBlock* previous = nullptr;
  HbmBlock* next = nullptr;
};

/// Counts of torch's flat keys: what is now, the most there was, the sums of all that came and went.
struct HbmCount {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};

struct HbmStatistics {
  HbmCount bytes;        ///< allocated_bytes; reserved, active and requested bytes are the same: no cache
  HbmCount allocations;  ///< allocation
  int64_t num_alloc_retries = 0, num_ooms = 0;
};

/// The account of one logical core's HBM: no bytes of its own, but the sum of those that are in use. The
/// first failure of an allocation asks `release` for memory that nobody needs (a retry, as a caching
/// allocator does it), the second one throws. Safe from several threads.
class HbmLedger {
 public:
  /// Frees what can be freed; called without the lock.
  using Release = std::function<void()>;

  explicit HbmLedger(int64_t capacity, std::string device_name);

  int64_t capacity() const { return capacity_; }

  /// Charges `block.bytes` and keeps the block, which must not move, until uncharge(). HbmFull when they do
  /// not fit; the block is then not charged. A block of no bytes counts as an allocation.
  void charge(HbmBlock& block);
  /// Ends the program when the block is not charged, as a double free does; only an empty one may be.
  void uncharge(HbmBlock& block) noexcept;

  void set_release(Release release);
  /// Mirrors current bytes, and the most there were, for other processes, from now on; null pointers end it.
  /// That peak is never reset.
  void mirror(std::atomic<int64_t>* allocated, std::atomic<int64_t>* peak);

  HbmStatistics statistics() const;
  /// The peaks become what is now.
  void reset_peak();
  /// Forgets the sums and the counts of retries and failures.
  void reset_accumulated();

  /// What holds the memory, the largest first: "forward: 3.20 GiB in 120 tensors (aten::mm float32: 2.10 GiB
  /// in 60, ...)", one line a phase. Empty when nothing does.
  std::string summary() const;

 private:
  // Callers hold the lock.
  bool try_charge(HbmBlock& block);
  void publish() const;
  std::string holders() const;
  std::string full_message(int64_t bytes) const;

  mutable std::mutex mutex_;
  const int64_t capacity_;
  const std::string device_name_;
  Release release_;
  HbmStatistics statistics_;
  HbmBlock list_;  // the ring's anchor
  std::atomic<int64_t>* shared_allocated_ = nullptr;
  std::atomic<int64_t>* shared_peak_ = nullptr;
};

}  // namespace titan::neuron
