#pragma once

#include <array>
#include <bitset>
#include <cstdint>

#include "titan/nki/instruction.h"
#include "titan/nki/memory.h"

namespace titan::nki {

/// The numbers, one a partition, that an engine keeps from one reducing instruction to the next.
class Accumulators {
 public:
  /// What `command` leaves in the accumulator of a partition of the chip, and `row` of `count` elements is
  /// what it reduces by `op`; `init` is what load_reduce begins with. KernelError "accumulator.unset" for
  /// reduce where nothing has begun a reduction in this kernel.
  float run(ReduceCommand command, Operation op, float init, const float* row, int64_t count,
            int64_t partition);

 private:
  std::array<float, CoreSizes::kPartitions> values_{};
  std::bitset<CoreSizes::kPartitions> begun_;
};

}  // namespace titan::nki
