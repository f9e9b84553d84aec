#include "titan/base/cpu_isa.h"

#include <algorithm>
#include <cstdlib>

#include "titan/base/error.h"

namespace titan {

namespace {

Isa chosen_isa() {
  const char* wish = std::getenv("TITAN_CPU_ISA");
  if (wish == nullptr || *wish == '\0') return best_cpu_isa();
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (name(isa) == wish) return std::min(isa, best_cpu_isa());
  }
  throw ConfigError("TITAN_CPU_ISA is '{}'; give baseline, avx2 or avx512", wish);
}

}  // namespace

Isa best_cpu_isa() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx2) return avx512 ? Isa::avx512 : Isa::avx2;
#endif
  return Isa::baseline;
}

Isa cpu_isa() {
  static const Isa isa = chosen_isa();
  return isa;
}

void require_cpu_isa(Isa isa) {
  if (isa <= best_cpu_isa()) return;
  throw ValueError("the CPU instructions '{}' are not here; this machine has {}", name(isa),
                   name(best_cpu_isa()));
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

}  // namespace titan
