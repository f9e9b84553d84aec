#include "titan/nki/gemm.h"

#include <cstdlib>

#include "titan/base/error.h"

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

namespace {

std::string_view best_gemm_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? "avx512" : "avx2";
  }
#endif
  return "baseline";
}

/// TITAN_CPU_ISA lowers the set and never raises it.
std::string_view chosen_gemm_isa() {
  const std::string_view best = best_gemm_isa();
  const char* given = std::getenv("TITAN_CPU_ISA");
  const std::string_view wish = given == nullptr ? "" : given;
  if (wish.empty() || wish == "avx512") return best;
  if (wish == "avx2") return best == "avx512" ? wish : best;
  if (wish == "baseline") return wish;
  throw ValueError("TITAN_CPU_ISA is '{}'; give baseline, avx2 or avx512", wish);
}

}  // namespace

const GemmKernel& gemm_kernel(std::string_view isa) {
#if defined(__x86_64__)
  if (isa == "avx512" && best_gemm_isa() == isa) return gemm_avx512::kKernel;
  if (isa == "avx2" && best_gemm_isa() != "baseline") return gemm_avx2::kKernel;
#endif
  if (isa == "baseline") return gemm_baseline::kKernel;
  throw ValueError(
      "the CPU instructions '{}' are not here; give baseline, avx2 or avx512 (this machine has {})", isa,
      best_gemm_isa());
}

const GemmKernel& gemm_kernel() {
  static const GemmKernel& kernel = gemm_kernel(chosen_gemm_isa());
  return kernel;
}

}  // namespace titan::nki
