#include "titan/nki/operands.h"

#include "titan/base/strings.h"

namespace titan::nki {
namespace {

/// Calls `visit` with the scalar operands of an instruction's attributes.
template <class Attribute, class Visit>
void for_each_scalar(Attribute& attribute, const Visit& visit) {
  if constexpr (requires { attribute.operand0; }) visit(attribute.operand0);
  if constexpr (requires { attribute.operand1; }) visit(attribute.operand1);
  if constexpr (requires { attribute.reduce_init; }) visit(attribute.reduce_init);
  if constexpr (requires { attribute.bias; }) visit(attribute.bias);
  if constexpr (requires { attribute.scale; }) visit(attribute.scale);
  if constexpr (requires { attribute.bound0; }) visit(attribute.bound0);
  if constexpr (requires { attribute.bound1; }) visit(attribute.bound1);
}

/// Whether what dst held before matters to the result.
bool keeps_some_of_dst(const Instruction& instruction) {
  if (const auto* matmul = std::get_if<Matmul>(&instruction.attributes))
    return matmul->accumulate.value_or(true);
  return std::holds_alternative<TensorCopyPredicated>(instruction.attributes) ||
         std::holds_alternative<StreamShuffle>(instruction.attributes) ||
         std::holds_alternative<DmaCompute>(instruction.attributes);
}

}  // namespace

void for_each_tensor(Instruction& instruction, const std::function<void(Tensor&)>& visit) {
  const auto visit_defined = [&](Tensor& tensor) {
    if (tensor.defined()) visit(tensor);
  };
  visit_defined(instruction.dst);
  for (Tensor& source : instruction.sources) visit_defined(source);
  visit_defined(instruction.reduce_dst);
  std::visit(
      [&](auto& attribute) {
        for_each_scalar(attribute, [&](ScalarOperand& operand) { visit_defined(operand.tensor); });
      },
      instruction.attributes);
}

void for_each_access(const Instruction& instruction,
                     const std::function<void(const Tensor&, Access)>& visit) {
  const auto access = [&](const Tensor& tensor, Access kind) {
    if (!tensor.defined()) return;
    visit(tensor, kind);
    if (tensor.indirection().offsets != nullptr) visit(*tensor.indirection().offsets, Access::read);
  };
  const bool is_barrier = std::holds_alternative<CoreBarrier>(instruction.attributes);
  for (const Tensor& source : instruction.sources)
    access(source, is_barrier ? Access::read_write : Access::read);
  std::visit(
      [&](const auto& attribute) {
        for_each_scalar(attribute,
                        [&](const ScalarOperand& operand) { access(operand.tensor, Access::read); });
      },
      instruction.attributes);
  access(instruction.dst, keeps_some_of_dst(instruction) ? Access::read_write : Access::write);
  access(instruction.reduce_dst, Access::write);
}

const Tensor& barrier_data(const Instruction& instruction) {
  return instruction.sources.empty() ? instruction.dst : instruction.sources[0];
}

std::string describe_at(const Instruction& instruction) {
  return format("{} at {}:{}", instruction.describe(), instruction.where.file_name(),
                instruction.where.line());
}

}  // namespace titan::nki
