#include "titan/nki/vector_loops.h"

namespace titan::nki::vector_loops_avx2 {
#include "titan/nki/vector_loops.inc"
}  // namespace titan::nki::vector_loops_avx2
