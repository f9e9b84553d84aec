#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "titan/train/kernel_check_kinds.h"

namespace titan {

/// A difference may be this part of the reference's largest number: some roundings of sums in another order.
inline constexpr double kFloat32Tolerance = 2e-5;
/// In bfloat16; of a rotation of x, whose terms are rounded one by one, this part of |x| + |rotate_half(x)|
/// of each element.
inline constexpr double kBfloat16Tolerance = 0x1p-6;

struct KernelCheckOptions {
  int64_t seq_len = 0;     ///< tokens of a row
  bool is_strict = false;  ///< float32 has to be equal
};

/// What a check has found: a table, and its last line.
struct KernelCheckReport {
  std::vector<std::string> lines;
  bool passed = true;
};

/// Builds what a replacement puts in and what it takes out, gives both the same weights, calls both on the
/// same drawn inputs (float32 and bfloat16, 1 and 4 rows, positions that run on and positions of documents,
/// a drawn rotary cache, and one token more than asked for) and compares results and gradients; then
/// gradients with difference quotients, and three runs with one another. Memory that torch hands out is
/// filled with NaN meanwhile.
KernelCheckReport check_replacement(const Replacement& replacement, const KernelCheckOptions& options);

}  // namespace titan
