#include <immintrin.h>

#include "titan/nki/gemm.h"

namespace titan::nki::gemm_avx2 {
constexpr int kRows = 4, kVectors = 3;
#include "titan/nki/gemm.inc"
}  // namespace titan::nki::gemm_avx2
