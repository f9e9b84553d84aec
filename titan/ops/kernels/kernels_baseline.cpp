#include "titan/ops/kernels/kernels.h"

namespace titan::isa_baseline {
#include "titan/ops/kernels/table.inc"
}  // namespace titan::isa_baseline
