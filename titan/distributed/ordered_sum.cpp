#include "titan/distributed/ordered_sum.h"

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <array>

#include "titan/base/error.h"

namespace titan {
namespace {

/// Elements summed at a time: their running sums stay in the first-level cache.
constexpr int64_t kSumBlock = 1024;

template <class Wide>
Wide greater_or_nan(Wide a, Wide b) {
  return a > b || a != a ? a : b;
}

template <class From, class Wide, class To>
void reduce_blocks(const Reduction& reduction, std::byte* to, std::span<const std::byte* const> sources,
                   int64_t count) {
  std::array<Wide, kSumBlock> sum;
  for (int64_t begin = 0; begin < count; begin += kSumBlock) {
    const int64_t n = std::min(kSumBlock, count - begin);
    const From* first = reinterpret_cast<const From*>(sources[0]) + begin;
    for (int64_t j = 0; j < n; ++j) sum[j] = static_cast<Wide>(first[j]);
    for (const std::byte* source : sources.subspan(1)) {
      const From* next = reinterpret_cast<const From*>(source) + begin;
      if (reduction.op == ReduceOp::sum) {
        for (int64_t j = 0; j < n; ++j) sum[j] += static_cast<Wide>(next[j]);
      } else {
        for (int64_t j = 0; j < n; ++j) sum[j] = greater_or_nan(sum[j], static_cast<Wide>(next[j]));
      }
    }
    To* out = reinterpret_cast<To*>(to) + begin;
    if (reduction.accumulate) {
      for (int64_t j = 0; j < n; ++j) out[j] = static_cast<To>(static_cast<Wide>(out[j]) + sum[j]);
    } else {
      for (int64_t j = 0; j < n; ++j) out[j] = static_cast<To>(sum[j]);
    }
  }
}

using ReduceBlocks = void (*)(const Reduction&, std::byte*, std::span<const std::byte* const>, int64_t);

ReduceBlocks reduce_of(at::ScalarType from, at::ScalarType to) {
  using c10::BFloat16;
  if (from == at::kFloat && to == at::kFloat) return reduce_blocks<float, float, float>;
  if (from == at::kDouble && to == at::kDouble) return reduce_blocks<double, double, double>;
  if (from == at::kLong && to == at::kLong) return reduce_blocks<int64_t, int64_t, int64_t>;
  if (from == at::kBFloat16 && to == at::kFloat) return reduce_blocks<BFloat16, float, float>;
  if (from == at::kBFloat16 && to == at::kBFloat16) return reduce_blocks<BFloat16, float, BFloat16>;
  return nullptr;
}

}  // namespace

void check_reduction(const Reduction& reduction) {
  if (reduce_of(reduction.from, reduction.to)) return;
  throw ValueError("a collective cannot sum {} into {}", reduction.from, reduction.to);
}

void reduce_in_order(const Reduction& reduction, std::byte* to, std::span<const std::byte* const> sources,
                     int64_t count) {
  const ReduceBlocks reduce = reduce_of(reduction.from, reduction.to);
  check(reduce != nullptr && !sources.empty(), "a reduction has arithmetic and sources");
  reduce(reduction, to, sources, count);
}

}  // namespace titan
