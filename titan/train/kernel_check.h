#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "titan/train/kernel_check_kinds.h"
#include "titan/train/kernel_check_table.h"

namespace titan {

struct KernelCheckOptions {
  int64_t seq_len = 0;             ///< tokens of a row
  bool is_strict = false;          ///< float32 has to be equal
  c10::Device device = c10::kCPU;  ///< where both modules run
};

/// Builds what a replacement puts in and what it takes out, gives both the same weights, calls both on the
/// same drawn inputs (float32 and bfloat16, 1 and 4 rows, positions that run on and positions of documents,
/// a drawn rotary cache, and one token more than asked for) and compares results and gradients; then
/// gradients with difference quotients, and three runs with one another. Memory that torch hands out is
/// filled with NaN meanwhile. Weights that have no counterpart, and whatever the modules throw, are failures
/// in the report.
KernelCheckReport check_replacement(const Replacement& replacement, const KernelCheckOptions& options);

}  // namespace titan
