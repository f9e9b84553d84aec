#include <immintrin.h>

#include "titan/nki/gemm.h"

namespace titan::nki::gemm_avx512 {
constexpr int kRows = 8, kVectors = 2;
#include "titan/nki/gemm.inc"
}  // namespace titan::nki::gemm_avx512
