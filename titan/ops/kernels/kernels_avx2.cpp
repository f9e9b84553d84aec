#include <immintrin.h>

#include "titan/ops/kernels/kernels.h"

namespace titan::isa_avx2 {
#include "titan/ops/kernels/table.inc"
}  // namespace titan::isa_avx2
