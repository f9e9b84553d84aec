#include "titan/ops/cpu_info.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>
#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "titan/base/cpu_isa.h"
#include "titan/ops/autograd.h"

namespace titan {

namespace {

bool has_bf16_instructions() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool amx = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & (1U << 22)) != 0;
  const bool avx512 = __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & (1U << 5)) != 0;
  return amx || avx512;
#else
  return false;
#endif
}

double measure_peak_flops() {
  constexpr int64_t kSize = 1024;
  constexpr int kRuns = 8;
  const NoGrad guard;
  const auto a = at::ones({kSize, kSize}), b = at::ones({kSize, kSize});
  double fastest = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    at::mm(a, b);
    fastest =
        std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2.0 * kSize * kSize * kSize / fastest;
}

}  // namespace

bool bf16_arithmetic() {
  static const bool has = cpu_isa() == Isa::avx512 && has_bf16_instructions();
  return has;
}

double measured_peak_flops() {
  static const double flops = measure_peak_flops();
  return flops;
}

}  // namespace titan
