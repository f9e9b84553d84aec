#include "titan/nki/gemm.h"

namespace titan::nki::gemm_baseline {
constexpr int kRows = 4, kVectors = 2;
#include "titan/nki/gemm.inc"
}  // namespace titan::nki::gemm_baseline
