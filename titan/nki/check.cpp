#include <algorithm>

#include "titan/nki/check_rules.h"
#include "titan/nki/error.h"

// [Note: rules]
// What the public NKI documentation says an instruction may do is checked here, and nothing else: its
// instruction reference (placement, sizes and dtypes of each instruction), its architecture guides (start
// partitions, access patterns, which engine reaches which memory) and its release notes. A rule is named
// after its instruction, so that docs/write_a_kernel.md can list it. check_operands.cpp holds what all
// instructions have in common; check_elementwise.cpp, check_reduce.cpp, check_select.cpp, check_tensor.cpp
// and check_dma.cpp hold the rest. What only data shows is found while an instruction is carried out.

namespace titan::nki {

void Checked::fail(std::string_view rule, const std::string& what) const {
  throw KernelError(format("{}.{}", instruction.name(), rule),
                    format("{}; in {}", what, instruction.describe()), instruction.where);
}

bool is_32_bit_float(Dtype dtype) { return dtype == Dtype::float32 || dtype == Dtype::tfloat32; }

bool is_comparison(Operation operation) {
  return operation >= Operation::equal && operation <= Operation::greater_equal;
}

bool is_arithmetic(Operation operation) {
  return operation >= Operation::add && operation <= Operation::logical_xor;
}

void check_instruction(const Instruction& instruction, const RunOptions& options) {
  const Checked checked{instruction, options};
  check_operands_are_there(checked);
  check_engine(checked);
  std::visit([&](const auto& attributes) { check_rules(checked, attributes); }, instruction.attributes);
}

}  // namespace titan::nki
