#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "titan/distributed/group.h"

namespace titan {

/// How members' elements become one: the dtype that they have and the one of the result.
struct Reduction {
  at::ScalarType from = at::kFloat;
  at::ScalarType to = at::kFloat;
  ReduceOp op = ReduceOp::sum;
  /// Add the result to what the destination holds.
  bool accumulate = false;
};

/// Throws ValueError naming both dtypes unless there is arithmetic for them: float32, float64, int64 and
/// bfloat16 (in float32) to themselves, bfloat16 to float32.
void check_reduction(const Reduction& reduction);

/// to[j] = sources[0][j] + sources[1][j] + ... (or the greatest), for `count` elements; always in the order
/// of the sources, so that every rank gets the same bits. `to` may be one of the sources.
void reduce_in_order(const Reduction& reduction, std::byte* to, std::span<const std::byte* const> sources,
                     int64_t count);

}  // namespace titan
