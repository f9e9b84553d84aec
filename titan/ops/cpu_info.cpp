#include "titan/ops/cpu_info.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "titan/base/error.h"
#include "titan/ops/autograd.h"

namespace titan {

namespace {

Isa best_isa() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx2 && avx512) return Isa::avx512;
  if (avx2) return Isa::avx2;
#endif
  return Isa::baseline;
}

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

Isa chosen_isa() {
  const char* wish = std::getenv("TITAN_CPU_ISA");
  if (wish == nullptr || *wish == '\0') return best_isa();
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (name(isa) == wish) return std::min(isa, best_isa());
  }
  throw ValueError("TITAN_CPU_ISA is '{}'; give baseline, avx2 or avx512", wish);
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

Isa cpu_isa() {
  static const Isa isa = chosen_isa();
  return isa;
}

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    case Isa::baseline:
      break;
  }
  return "baseline";
}

bool bf16_arithmetic() {
  static const bool has = cpu_isa() == Isa::avx512 && has_bf16_instructions();
  return has;
}

double measured_peak_flops() {
  static const double flops = measure_peak_flops();
  return flops;
}

}  // namespace titan
