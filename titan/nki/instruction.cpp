#include "titan/nki/instruction.h"

#include <array>

#include "titan/base/strings.h"

namespace titan::nki {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Attributes>> kNames = {"dma_copy",
                                                                                  "dma_transpose",
                                                                                  "dma_compute",
                                                                                  "tensor_copy",
                                                                                  "tensor_copy_predicated",
                                                                                  "memset",
                                                                                  "iota",
                                                                                  "nc_matmul",
                                                                                  "nc_transpose",
                                                                                  "nc_stream_shuffle",
                                                                                  "tensor_tensor",
                                                                                  "tensor_scalar",
                                                                                  "scalar_tensor_tensor",
                                                                                  "tensor_reduce",
                                                                                  "tensor_partition_reduce",
                                                                                  "tensor_scalar_reduce",
                                                                                  "activation",
                                                                                  "reciprocal",
                                                                                  "affine_select",
                                                                                  "range_select",
                                                                                  "sendrecv",
                                                                                  "core_barrier",
                                                                                  "device_print"};

std::string describe_scalar(const ScalarOperand& operand) {
  return operand.is_tensor() ? operand.tensor.describe() : shortest(operand.constant);
}

/// "multiply 0.5"; nothing for no operation.
void add_step(std::vector<std::string>& parts, Operation op, const ScalarOperand& operand) {
  if (op == Operation::none) return;
  std::string text(operation_name(op));
  if (!is_unary(op)) text += " " + describe_scalar(operand);
  parts.push_back(std::move(text));
}

/// What the attributes say about the computation.
void add_attributes(std::vector<std::string>& parts, const Attributes& attributes) {
  const auto add_operation = [&](Operation op) {
    if (op != Operation::none) parts.emplace_back(operation_name(op));
  };
  if (const auto* memset = std::get_if<Memset>(&attributes)) parts.push_back(shortest(memset->value));
  if (const auto* op = std::get_if<TensorTensor>(&attributes)) add_operation(op->op);
  if (const auto* op = std::get_if<TensorReduce>(&attributes)) add_operation(op->op);
  if (const auto* op = std::get_if<TensorPartitionReduce>(&attributes)) add_operation(op->op);
  if (const auto* op = std::get_if<Activation>(&attributes)) add_operation(op->op);
  if (const auto* op = std::get_if<AffineSelect>(&attributes)) add_operation(op->compare);
  if (const auto* op = std::get_if<TensorScalar>(&attributes)) {
    add_step(parts, op->op0, op->operand0);
    add_step(parts, op->op1, op->operand1);
  }
  if (const auto* op = std::get_if<ScalarTensorTensor>(&attributes)) {
    add_step(parts, op->op0, op->operand0);
    add_operation(op->op1);
  }
  if (const auto* op = std::get_if<TensorScalarReduce>(&attributes)) {
    add_step(parts, op->op0, op->operand0);
    add_operation(op->reduce);
  }
  if (const auto* op = std::get_if<RangeSelect>(&attributes)) {
    add_step(parts, op->compare0, op->bound0);
    add_step(parts, op->compare1, op->bound1);
  }
  if (const auto* op = std::get_if<SendRecv>(&attributes))
    parts.push_back(format("to {}, from {}, pipe {}", op->send_to, op->receive_from, op->pipe));
}

}  // namespace

std::string_view engine_name(Engine engine) {
  constexpr std::array<std::string_view, 7> names = {"unknown", "tensor", "vector", "scalar",
                                                     "gpsimd",  "dma",    "sync"};
  return names[static_cast<size_t>(engine)];
}

std::string_view Instruction::name() const {
  const auto* activation = std::get_if<Activation>(&attributes);
  if (activation != nullptr && activation->is_reduce) return "activation_reduce";
  return kNames[attributes.index()];
}

std::string Instruction::describe() const {
  std::vector<std::string> parts;
  const auto add_tensor = [&](const Tensor& tensor) {
    if (tensor.defined()) parts.push_back(tensor.describe());
  };
  add_tensor(dst);
  for (const Tensor& source : sources) add_tensor(source);
  add_tensor(reduce_dst);
  add_attributes(parts, attributes);
  return format("{}({})", name(), join(parts, ", "));
}

}  // namespace titan::nki
