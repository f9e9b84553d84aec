#include "titan/nki/accumulators.h"

#include <limits>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/nki/error.h"
#include "titan/nki/operation.h"

namespace titan::nki {
namespace {

/// What changes nothing.
float neutral(Operation op) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (op) {
    case Operation::multiply:
      return 1;
    case Operation::maximum:
      return -kInfinity;
    case Operation::minimum:
      return kInfinity;
    default:
      return 0;
  }
}

}  // namespace

float Accumulators::run(ReduceCommand command, Operation op, float init, const float* row, int64_t count,
                        int64_t partition) {
  const auto index = static_cast<size_t>(partition);
  float& value = values_[index];
  switch (command) {
    case ReduceCommand::idle:
      return value;
    case ReduceCommand::reset:
      value = neutral(op);
      break;
    case ReduceCommand::reset_reduce:
      value = reduce(op, row[0], row + 1, count - 1);
      break;
    case ReduceCommand::load_reduce:
      value = reduce(op, init, row, count);
      break;
    case ReduceCommand::reduce:
      if (!begun_[index]) {
        throw KernelError("accumulator.unset",
                          format("reduce_cmd reduce adds to the accumulator of partition {}, and no reset, "
                                 "reset_reduce or load_reduce has begun a reduction in it",
                                 partition));
      }
      value = reduce(op, value, row, count);
      break;
  }
  begun_.set(index);
  return value;
}

}  // namespace titan::nki
