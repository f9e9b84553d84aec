#pragma once

#include <cstddef>
#include <cstdint>

#include "titan/base/cpu_isa.h"

namespace titan::nki {

/// The loops over a partition's elements that most kernels spend their time in, for one instruction set. Each
/// set gives the same bits. Bytes of bfloat16 may lie anywhere; `to` of a sum may be `a` or `b`.
struct VectorLoops {
  using Combine = void(const float* a, const float* b, float* to, int64_t count);
  void (*widen_bfloat16)(const std::byte* from, float* to, int64_t count);
  /// To the nearest, ties to even.
  void (*round_bfloat16)(const float* from, std::byte* to, int64_t count);
  Combine *add, *subtract, *multiply;
};

/// ValueError for a set that this machine does not have.
const VectorLoops& vector_loops(Isa isa);
/// Those for cpu_isa().
const VectorLoops& vector_loops();

}  // namespace titan::nki
