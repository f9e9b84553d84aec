#pragma once

#include <cstdint>

#include "titan/base/cpu_isa.h"

namespace titan::nki {

/// C [rows, cols] (+)= A^T B for A [depth, rows] and B [depth, cols] in float32, as TensorE does it: each
/// element is one chain of multiply-adds in the order of depth, which begins at C or at 0.
///
/// A and B are packed: in panels of `panel_rows` or `panel_cols` neighbours, each [depth][neighbours], the
/// last one filled up with anything.
struct PackedGemm {
  int64_t rows, cols, depth;
  const float* a;
  const float* b;
  float* c;
  int64_t c_row;  ///< floats between rows of C
  bool accumulate;
};

/// A matmul for one instruction set.
struct GemmKernel {
  int64_t panel_rows, panel_cols;
  void (*run)(const PackedGemm& gemm);
  /// Widens one row of bfloat16 into panels of `panel` (one of the two above): to[0 .. panel - 1], then
  /// `depth` panels further.
  void (*pack_bfloat16)(const uint16_t* from, int64_t count, float* to, int64_t panel, int64_t depth);
};

/// ValueError for a set that this machine does not have.
const GemmKernel& gemm_kernel(Isa isa);
/// The one for cpu_isa().
const GemmKernel& gemm_kernel();

}  // namespace titan::nki
