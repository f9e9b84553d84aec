#include "titan/nki/gemm.h"

namespace titan::nki {

namespace gemm_baseline {
extern const GemmKernel kKernel;
}
#if defined(__x86_64__)
namespace gemm_avx2 {
extern const GemmKernel kKernel;
}
namespace gemm_avx512 {
extern const GemmKernel kKernel;
}
#endif

const GemmKernel& gemm_kernel(Isa isa) {
  require_cpu_isa(isa);
#if defined(__x86_64__)
  if (isa == Isa::avx512) return gemm_avx512::kKernel;
  if (isa == Isa::avx2) return gemm_avx2::kKernel;
#endif
  return gemm_baseline::kKernel;
}

const GemmKernel& gemm_kernel() {
  static const GemmKernel& kernel = gemm_kernel(cpu_isa());
  return kernel;
}

}  // namespace titan::nki
