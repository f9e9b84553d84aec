#include "titan/nki/chip_places.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "titan/base/error.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"

namespace titan::nki {
namespace {

bool ranges_meet(int64_t begin, int64_t count, int64_t other_begin, int64_t other_count) {
  return begin < other_begin + other_count && other_begin < begin + count;
}

int64_t aligned_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

std::string tensor_named(const std::string& name) { return name.empty() ? "a tensor" : name; }

}  // namespace

int64_t ChipPlaces::place(int64_t byte, int64_t bytes, int64_t alignment) const {
  constexpr int64_t kBank = CoreSizes::kPsumBankBytes;
  byte = aligned_up(byte, alignment);
  if (buffer_ != Buffer::psum) return byte;
  return byte % kBank + bytes > kBank ? aligned_up(byte, kBank) : byte;
}

int64_t ChipPlaces::reserve(int64_t first, int64_t count, int64_t bytes, int64_t alignment,
                            const std::string& name) {
  check(first >= 0 && count >= 1 && first + count <= CoreSizes::kPartitions && bytes >= 1,
        "the partitions exist");
  const std::scoped_lock lock(mutex_);
  constexpr size_t kMostRequests = 256;
  if (lowest_.size() > kMostRequests) lowest_.clear();
  int64_t& lowest = lowest_[{first, count, bytes, alignment}];
  int64_t begin = place(lowest, bytes, alignment);
  for (auto range = ranges_.lower_bound(begin - longest_); range != ranges_.end(); ++range) {
    if (!ranges_meet(first, count, range->second.first, range->second.count)) continue;
    if (begin + bytes <= range->first) break;
    begin = std::max(begin, place(range->second.end, bytes, alignment));
  }
  if (begin + bytes > partition_bytes_) {
    throw KernelError(
        format("memory.{}-full", buffer_name(buffer_)),
        format("{} of {} bytes in each of {} partitions does not fit into {} of {} bytes a partition: {}",
               tensor_named(name), with_commas(bytes), count, buffer_name(buffer_),
               with_commas(partition_bytes_), in_use(first, count)));
  }
  lowest = begin;
  add(begin, {first, count, begin + bytes, false, name});
  return begin;
}

void ChipPlaces::claim(int64_t first, int64_t count, int64_t byte, int64_t bytes, const std::string& name) {
  if (first < 0 || first > CoreSizes::kPartitions - count || byte < 0 || byte > partition_bytes_ - bytes) {
    throw KernelError(
        "memory.address",
        format(
            "{} of {} partitions and {} bytes at partition {}, byte {} leaves {} of {} partitions, {} bytes",
            tensor_named(name), count, with_commas(bytes), first, byte, buffer_name(buffer_),
            CoreSizes::kPartitions, with_commas(partition_bytes_)));
  }
  const std::scoped_lock lock(mutex_);
  add(byte, {first, count, byte + bytes, true, name});
}

void ChipPlaces::add(int64_t begin, Range range) {
  const int64_t first = range.first, end = first + range.count, bytes = range.end - begin;
  longest_ = std::max(longest_, bytes);
  if (range.is_claim) ++num_claims_;
  for (int64_t p = first; p < end; ++p) taken_[static_cast<size_t>(p)] += bytes;
  ranges_.emplace(begin, std::move(range));
  if (num_claims_ == 0) {
    peak_ = std::max(peak_, *std::max_element(taken_.begin() + first, taken_.begin() + end));
    return;
  }
  // Bytes that claims share count once. What is in use changes only where a range of partitions begins.
  peak_ = std::max(peak_, used_bytes(first));
  int64_t seen = first;
  for (const auto& [byte, other] : ranges_) {
    if (other.first > first && other.first < end && other.first != seen) {
      peak_ = std::max(peak_, used_bytes(other.first));
      seen = other.first;
    }
  }
}

int64_t ChipPlaces::used_bytes(int64_t partition) const {
  int64_t used = 0, counted = 0;
  for (const auto& [begin, range] : ranges_) {
    if (partition < range.first || partition >= range.first + range.count) continue;
    used += std::max<int64_t>(0, range.end - std::max(begin, counted));
    counted = std::max(counted, range.end);
  }
  return used;
}

void ChipPlaces::release(int64_t first, int64_t count, int64_t byte, int64_t bytes) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto [begin, end] = ranges_.equal_range(byte);
  const auto found = std::find_if(begin, end, [&](const auto& entry) {
    const Range& range = entry.second;
    return range.first == first && range.count == count && range.end == byte + bytes;
  });
  if (found == end) return;
  if (found->second.is_claim) --num_claims_;
  ranges_.erase(found);
  for (int64_t p = first; p < first + count; ++p) taken_[static_cast<size_t>(p)] -= bytes;
  // What fits now and did not before reaches into these bytes.
  for (auto& [request, lowest] : lowest_) lowest = std::min(lowest, std::max<int64_t>(0, byte - request[2]));
}

int64_t ChipPlaces::peak_bytes() const {
  const std::scoped_lock lock(mutex_);
  return peak_;
}

std::string ChipPlaces::in_use(int64_t first, int64_t count) const {
  std::vector<const Ranges::value_type*> largest;
  for (const auto& entry : ranges_) {
    if (ranges_meet(first, count, entry.second.first, entry.second.count)) largest.push_back(&entry);
  }
  if (largest.empty()) return "nothing is in use";
  const auto bytes_of = [](const Ranges::value_type* entry) { return entry->second.end - entry->first; };
  std::ranges::stable_sort(largest, std::greater<>(), bytes_of);
  constexpr size_t kShown = 8;
  std::string text = "in use are ";
  for (size_t i = 0; i < largest.size() && i < kShown; ++i) {
    text += format("{}{} ({} bytes at {})", i == 0 ? "" : ", ", tensor_named(largest[i]->second.name),
                   with_commas(bytes_of(largest[i])), with_commas(largest[i]->first));
  }
  if (largest.size() > kShown) text += format(" and {} more", largest.size() - kShown);
  return text;
}

}  // namespace titan::nki
