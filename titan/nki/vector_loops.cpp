#include "titan/nki/vector_loops.h"

namespace titan::nki {

namespace vector_loops_baseline {
extern const VectorLoops kLoops;
}
#if defined(__x86_64__)
namespace vector_loops_avx2 {
extern const VectorLoops kLoops;
}
namespace vector_loops_avx512 {
extern const VectorLoops kLoops;
}
#endif

const VectorLoops& vector_loops(Isa isa) {
  require_cpu_isa(isa);
#if defined(__x86_64__)
  if (isa == Isa::avx512) return vector_loops_avx512::kLoops;
  if (isa == Isa::avx2) return vector_loops_avx2::kLoops;
#endif
  return vector_loops_baseline::kLoops;
}

const VectorLoops& vector_loops() {
  static const VectorLoops& loops = vector_loops(cpu_isa());
  return loops;
}

}  // namespace titan::nki
