#include "titan/nki/memory.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "titan/base/error.h"

namespace titan::nki {
namespace {

constexpr int64_t kPartitions = CoreSizes::kPartitions;
constexpr size_t kHostAlignment = 64;

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
      places_(std::make_shared<ChipPlaces>(buffer, partition_bytes)) {
  if (bytes_ == nullptr) throw std::bad_alloc();
}

}  // namespace titan::nki
