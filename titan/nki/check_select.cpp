#include <cmath>

#include "titan/nki/check_rules.h"

namespace titan::nki {

namespace {

using StepsAndCounts = std::vector<std::pair<int64_t, int64_t>>;

bool fits_int32(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

/// Of iota and affine_select: at most 4 dimensions, a number for each element, all of them 32-bit integers.
void check_pattern(const Checked& checked, const StepsAndCounts& pattern, int64_t offset,
                   int64_t multiplier) {
  checked.require(!pattern.empty() && pattern.size() <= 4, "pattern-dims",
                  "pattern has {} dimensions, it takes 1 to 4", pattern.size());
  int64_t count = 1;
  // A term that a double rounds is far from 32 bits, and none takes another one back.
  auto lowest = static_cast<double>(offset), highest = lowest;
  const auto reach = [&](int64_t step, int64_t steps) {
    const double term = static_cast<double>(step) * static_cast<double>(steps);
    (term < 0 ? lowest : highest) += term;
  };
  reach(multiplier, checked.dst().partitions() - 1);
  for (const auto& [step, size] : pattern) {
    checked.require(size >= 1 && size <= UINT16_MAX, "pattern-size",
                    "pattern counts {} along a dimension, it takes 1 to 65535", size);
    count *= size;
    reach(step, size - 1);
    checked.require(count <= checked.dst().free_size(), "pattern-count",
                    "pattern has more numbers than dst has elements a partition, {}",
                    checked.dst().free_size());
  }
  checked.require(count == checked.dst().free_size(), "pattern-count",
                  "pattern has {} numbers and dst {} elements a partition: they must agree", count,
                  checked.dst().free_size());
  checked.require(fits_int32(offset) && lowest >= INT32_MIN && highest <= INT32_MAX, "pattern-range",
                  "offset, channel_multiplier and pattern leave the 32-bit integers");
}

}  // namespace

void check_rules(const Checked& checked, const Iota& iota) {
  checked.require(!is_psum(checked.dst()), "dst-sbuf", "dst must be in SBUF");
  check_engine_access(checked);
  check_pattern(checked, iota.pattern, iota.offset, iota.channel_multiplier);
}

void check_rules(const Checked& checked, const AffineSelect& select) {
  checked.require(!is_psum(checked.dst()) && !is_psum(checked.source(0)), "sbuf-only",
                  "dst and on_true_tile must be in SBUF: copy by tensor_copy");
  check_engine_access(checked);
  check_same_sizes(checked, {"dst", &checked.dst()}, {"on_true_tile", &checked.source(0)});
  check_pattern(checked, select.pattern, select.offset, select.channel_multiplier);
  checked.require(is_comparison(select.compare), "cmp-op", "cmp_op must be a comparison, got {}",
                  operation_name(select.compare));
}

void check_rules(const Checked& checked, const RangeSelect& select) {
  checked.require(checked.options.generation >= Generation::trn2, "generation",
                  "range_select needs trn2 or later");
  check_engine_access(checked);
  check_same_sizes(checked, {"dst", &checked.dst()}, {"on_true_tile", &checked.source(0)});
  checked.require(is_float(checked.source(0).dtype()), "dtype", "on_true_tile must be of floats, got {}",
                  dtype_name(checked.source(0).dtype()));
  checked.require(is_float(checked.dst().dtype()), "dtype", "dst must be of floats, got {}",
                  dtype_name(checked.dst().dtype()));
  for (const Operation compare : {select.compare0, select.compare1}) {
    checked.require(is_comparison(compare), "comp-op", "comp_op0 and comp_op1 must be comparisons, got {}",
                    operation_name(compare));
  }
  for (const ScalarOperand* bound : {&select.bound0, &select.bound1}) {
    checked.require(bound->is_tensor() && bound->tensor.dtype() == Dtype::float32, "bound-dtype",
                    "a bound must be a float32 tensor of one number a partition, got {}",
                    bound->is_tensor() ? bound->tensor.describe() : "a number");
    check_scalar_operand(checked, bound == &select.bound0 ? "bound0" : "bound1", *bound);
  }
  constexpr double kWholeFloats = 16777216;
  const double last = select.range_start + static_cast<double>(checked.dst().free_size());
  checked.require(select.range_start >= -kWholeFloats && last <= kWholeFloats, "range",
                  "range_start + index must stay within 2^24, where float32 holds every whole number");
  if (checked.instruction.reduce_dst.defined()) {
    check_scalar_operand(checked, "reduce_res", ScalarOperand(checked.instruction.reduce_dst));
  }
}

void check_rules(const Checked& checked, const StreamShuffle& shuffle) {
  check_engine_access(checked);
  const Tensor& src = checked.source(0);
  checked.require(checked.dst().dtype() == src.dtype(), "dtype",
                  "dst and src must have one dtype, got {} and {}", dtype_name(checked.dst().dtype()),
                  dtype_name(src.dtype()));
  checked.require(checked.dst().free_size() == src.free_size(), "free-size",
                  "dst has {} elements a partition and src {}: they must agree", checked.dst().free_size(),
                  src.free_size());
  for (int64_t p = 0; p < checked.dst().partitions(); ++p) {
    const int64_t from = shuffle.mask[static_cast<size_t>(p % 32)];
    if (from == 255) continue;
    checked.require(from < 32, "mask",
                    "shuffle_mask[{}] is {}: it takes 0 to 31, or 255 to leave dst as it is", p % 32, from);
    checked.require(p / 32 * 32 + from < src.partitions(), "mask-source",
                    "partition {} takes partition {} of src, which has {}", p, p / 32 * 32 + from,
                    src.partitions());
  }
}

}  // namespace titan::nki
