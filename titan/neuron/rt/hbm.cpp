#include "titan/neuron/rt/hbm.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace titan::neuron {

namespace {

/// "2.00 GiB", in the unit that leaves digits before the point.
std::string byte_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return format("{} {}", unit == 0 ? std::to_string(bytes) : fixed(value, 2), kUnits[unit]);
}

std::string tensors_text(int64_t count) {
  return format("{} {}", with_commas(count), count == 1 ? "tensor" : "tensors");
}

void add(HbmCount& count, int64_t amount) {
  count.current += amount;
  count.allocated += amount;
  count.peak = std::max(count.peak, count.current);
}

void subtract(HbmCount& count, int64_t amount) {
  count.current -= amount;
  count.freed += amount;
}

struct Holding {
  int64_t bytes = 0, tensors = 0;

  void add(int64_t more_bytes, int64_t more_tensors) {
    bytes += more_bytes;
    tensors += more_tensors;
  }
};

using OperatorKey = std::pair<std::string_view, std::string_view>;  // operation, dtype

struct PhaseHolding {
  Holding all;
  std::map<OperatorKey, Holding> operators;
};

/// A map's entries, the largest holding first; equal ones by name, so that the text is always the same.
template <class Key, class Value, class HoldingOf>
std::vector<std::pair<Key, Value>> largest_first(const std::map<Key, Value>& map, HoldingOf holding_of) {
  std::vector<std::pair<Key, Value>> entries(map.begin(), map.end());
  std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
    return holding_of(a.second).bytes > holding_of(b.second).bytes;
  });
  return entries;
}

/// "aten::mm float32: 2.10 GiB in 60, aten::add float32: ..., others: 12.00 MiB in 7"
std::string operators_text(const std::map<OperatorKey, Holding>& operators) {
  constexpr size_t kNamed = 6;
  std::vector<std::string> parts;
  Holding others;
  for (const auto& [key, holding] :
       largest_first(operators, [](const Holding& h) -> const Holding& { return h; })) {
    if (parts.size() < kNamed) {
      parts.push_back(format("{} {}: {} in {}", key.first, key.second, byte_text(holding.bytes),
                             with_commas(holding.tensors)));
    } else {
      others.add(holding.bytes, holding.tensors);
    }
  }
  if (others.tensors > 0) {
    parts.push_back(format("others: {} in {}", byte_text(others.bytes), with_commas(others.tensors)));
  }
  return join(parts, ", ");
}

}  // namespace

HbmLedger::HbmLedger(int64_t capacity, std::string device_name)
    : capacity_(capacity), device_name_(std::move(device_name)) {
  list_.previous = list_.next = &list_;
}

void HbmLedger::charge(HbmBlock& block) {
  check(block.next == nullptr && block.bytes >= 0, "a block of HBM is charged once, for no negative bytes");
  Release release;
  {
    const std::lock_guard lock(mutex_);
    if (try_charge(block)) return;
    ++statistics_.num_alloc_retries;
    release = release_;
  }
  if (release) release();
  const std::lock_guard lock(mutex_);
  if (try_charge(block)) return;
  ++statistics_.num_ooms;
  throw HbmFull(full_message(block.bytes));
}

bool HbmLedger::try_charge(HbmBlock& block) {
  if (block.bytes > capacity_ - statistics_.bytes.current) return false;
  block.previous = list_.previous;
  block.next = &list_;
  block.previous->next = &block;
  list_.previous = &block;
  add(statistics_.bytes, block.bytes);
  add(statistics_.allocations, 1);
  publish();
  return true;
}

void HbmLedger::uncharge(HbmBlock& block) noexcept {
  const std::lock_guard lock(mutex_);
  if (block.next == nullptr) {
    check(block.bytes == 0, "a block of HBM that is given back is charged");
    return;
  }
  block.previous->next = block.next;
  block.next->previous = block.previous;
  block.previous = block.next = nullptr;
  subtract(statistics_.bytes, block.bytes);
  subtract(statistics_.allocations, 1);
  publish();
}

void HbmLedger::publish() const {
  if (shared_allocated_) shared_allocated_->store(statistics_.bytes.current, std::memory_order_relaxed);
  if (shared_peak_ && shared_peak_->load(std::memory_order_relaxed) < statistics_.bytes.current)
    shared_peak_->store(statistics_.bytes.current, std::memory_order_relaxed);
}

void HbmLedger::set_release(Release release) {
  const std::lock_guard lock(mutex_);
  release_ = std::move(release);
}

void HbmLedger::mirror(std::atomic<int64_t>* allocated, std::atomic<int64_t>* peak) {
  const std::lock_guard lock(mutex_);
  shared_allocated_ = allocated;
  shared_peak_ = peak;
  if (peak) peak->store(0, std::memory_order_relaxed);
  publish();
}

HbmStatistics HbmLedger::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void HbmLedger::reset_accumulated() {
  const std::lock_guard lock(mutex_);
  for (HbmCount* count : {&statistics_.bytes, &statistics_.allocations}) count->allocated = count->freed = 0;
  statistics_.num_alloc_retries = statistics_.num_ooms = 0;
}

void HbmLedger::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.bytes.peak = statistics_.bytes.current;
  statistics_.allocations.peak = statistics_.allocations.current;
}

std::string HbmLedger::summary() const {
  const std::lock_guard lock(mutex_);
  return holders();
}

std::string HbmLedger::holders() const {
  std::map<std::string_view, PhaseHolding> phases;
  for (const HbmBlock* block = list_.next; block != &list_; block = block->next) {
    PhaseHolding& phase = phases[block->origin.phase];
    phase.all.add(block->bytes, 1);
    phase.operators[{block->origin.operation, block->origin.dtype}].add(block->bytes, 1);
  }
  std::vector<std::string> lines;
  for (const auto& [name, phase] :
       largest_first(phases, [](const PhaseHolding& p) -> const Holding& { return p.all; })) {
    lines.push_back(format("{}: {} in {} ({})", name, byte_text(phase.all.bytes),
                           tensors_text(phase.all.tensors), operators_text(phase.operators)));
  }
  return join(lines, "\n");
}

std::string HbmLedger::full_message(int64_t bytes) const {
  const int64_t used = statistics_.bytes.current;
  const std::string held = holders();
  return format(
      "NEURON out of memory. Tried to allocate {}. {} has {} of HBM, {} of it allocated in {}, {} free. "
      "{}Use a "
      "smaller training.local_batch_size or training.seq_len, turn on activation_checkpoint, or shard over "
      "more "
      "ranks.",
      byte_text(bytes), device_name_, byte_text(capacity_), byte_text(used),
      tensors_text(statistics_.allocations.current), byte_text(capacity_ - used),
      held.empty() ? "" : format("What holds it:\n{}\n", held));
}

}  // namespace titan::neuron
