#include "titan/nki/memory.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "titan/base/error.h"
#include "titan/nki/error.h"

namespace titan::nki {
namespace {

constexpr int64_t kPartitions = CoreSizes::kPartitions;
constexpr size_t kHostAlignment = 64;

bool overlap(int64_t begin, int64_t count, int64_t other_begin, int64_t other_count) {
  return begin < other_begin + other_count && other_begin < begin + count;
}

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

/// Physical partitions have 192, 224 and 256 KiB (architecture guides of the three chips). On trn2 the
/// compiler keeps a part to itself: published kernels plan with 192 to 207 KiB, so 192 runs everywhere; trn3
/// is taken to keep as much.
CoreSizes CoreSizes::of(Generation generation) {
  constexpr int64_t kKiB = 1024;
  switch (generation) {
    case Generation::trn1:
      return {.sbuf_partition_bytes = 192 * kKiB, .physical_sbuf_partition_bytes = 192 * kKiB};
    case Generation::trn2:
      return {.sbuf_partition_bytes = 192 * kKiB, .physical_sbuf_partition_bytes = 224 * kKiB};
    case Generation::trn3:
      return {.sbuf_partition_bytes = 224 * kKiB, .physical_sbuf_partition_bytes = 256 * kKiB};
  }
  check(false, "the generation has sizes");
  return {};
}

void ChipMemory::Free::operator()(std::byte* bytes) const noexcept { std::free(bytes); }

// Pages of the host are taken when they are first written: a kernel that uses little costs little.
ChipMemory::ChipMemory(Buffer buffer, int64_t partition_bytes)
    : buffer_(buffer),
      partition_bytes_(partition_bytes),
      bytes_(static_cast<std::byte*>(std::aligned_alloc(
          kHostAlignment, static_cast<size_t>(round_up(kPartitions * partition_bytes, 64))))),
      written_(kPartitions * partition_bytes),
      alive_(std::make_shared<char>()) {
  if (bytes_ == nullptr) throw std::bad_alloc();
}

int64_t ChipMemory::reserve(int64_t first, int64_t count, int64_t bytes, int64_t alignment,
                            const std::string& name) {
  check(first >= 0 && count >= 1 && first + count <= kPartitions && bytes >= 1, "the partitions exist");
  constexpr int64_t kBank = CoreSizes::kPsumBankBytes;
  const auto place = [&](int64_t byte) {
    byte = round_up(byte, alignment);
    if (buffer_ != Buffer::psum) return byte;
    return byte % kBank + bytes > kBank ? round_up(byte, kBank) : byte;
  };
  int64_t begin = place(0);
  for (const Range& range : ranges_) {
    if (!overlap(first, count, range.first, range.count)) continue;
    if (begin + bytes <= range.begin) break;
    begin = std::max(begin, place(range.end));
  }
  if (begin + bytes > partition_bytes_) {
    throw KernelError(
        format("memory.{}-full", buffer_name(buffer_)),
        format("{} of {} bytes in each of {} partitions does not fit into {} of {} bytes a partition: {}",
               name.empty() ? "a tensor" : name, with_commas(bytes), count, buffer_name(buffer_),
               with_commas(partition_bytes_), in_use(first, count)));
  }
  add({first, count, begin, begin + bytes, name});
  return begin;
}

void ChipMemory::claim(int64_t first, int64_t count, int64_t byte, int64_t bytes, const std::string& name) {
  if (first < 0 || first > kPartitions - count || byte < 0 || byte > partition_bytes_ - bytes) {
    throw KernelError(
        "memory.address",
        format(
            "{} of {} partitions and {} bytes at partition {}, byte {} leaves {} of {} partitions, {} bytes",
            name.empty() ? "a tensor" : name, count, with_commas(bytes), first, byte, buffer_name(buffer_),
            kPartitions, with_commas(partition_bytes_)));
  }
  add({first, count, byte, byte + bytes, name});
}

void ChipMemory::add(Range range) {
  const auto after = [](int64_t begin, const Range& other) { return begin < other.begin; };
  const auto at = std::upper_bound(ranges_.begin(), ranges_.end(), range.begin, after);
  const auto added = ranges_.insert(at, std::move(range));
  // What is in use changes only where a range of partitions begins.
  const int64_t first = added->first, end = added->first + added->count;
  peak_ = std::max(peak_, used_bytes(first));
  int64_t seen = first;
  for (const Range& other : ranges_) {
    if (other.first > first && other.first < end && other.first != seen) {
      peak_ = std::max(peak_, used_bytes(other.first));
      seen = other.first;
    }
  }
}

int64_t ChipMemory::used_bytes(int64_t partition) const {
  int64_t used = 0, counted = 0;
  for (const Range& range : ranges_) {
    if (partition < range.first || partition >= range.first + range.count) continue;
    used += std::max<int64_t>(0, range.end - std::max(range.begin, counted));
    counted = std::max(counted, range.end);
  }
  return used;
}

void ChipMemory::release(int64_t first, int64_t count, int64_t byte, int64_t bytes) noexcept {
  const auto range = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& other) {
    return other.first == first && other.count == count && other.begin == byte && other.end == byte + bytes;
  });
  if (range != ranges_.end()) ranges_.erase(range);
}

std::string ChipMemory::in_use(int64_t first, int64_t count) const {
  std::vector<const Range*> largest;
  for (const Range& range : ranges_) {
    if (overlap(first, count, range.first, range.count)) largest.push_back(&range);
  }
  if (largest.empty()) return "nothing is in use";
  std::stable_sort(largest.begin(), largest.end(),
                   [](const Range* a, const Range* b) { return a->end - a->begin > b->end - b->begin; });
  constexpr size_t kShown = 8;
  std::string text = "in use are ";
  for (size_t i = 0; i < largest.size() && i < kShown; ++i) {
    const Range& range = *largest[i];
    text += format("{}{} ({} bytes at {})", i == 0 ? "" : ", ", range.name.empty() ? "a tensor" : range.name,
                   with_commas(range.end - range.begin), with_commas(range.begin));
  }
  if (largest.size() > kShown) text += format(" and {} more", largest.size() - kShown);
  return text;
}

}  // namespace titan::nki
