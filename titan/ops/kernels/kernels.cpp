#include "titan/ops/kernels/kernels.h"

#include "titan/base/error.h"

namespace titan {

namespace isa_baseline {
extern const Kernels kTable;
}
#if defined(__x86_64__)
namespace isa_avx2 {
extern const Kernels kTable;
}
namespace isa_avx512 {
extern const Kernels kTable;
}
#endif

const Kernels& kernels_for(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return isa_avx512::kTable;
  if (isa == Isa::avx2) return isa_avx2::kTable;
#endif
  check(isa == Isa::baseline, "this machine has only the baseline kernels");
  return isa_baseline::kTable;
}

const Kernels& kernels() {
  static const Kernels& table = kernels_for(cpu_isa());
  return table;
}

}  // namespace titan
