#include <cmath>
#include <limits>

#include "titan/nki/check_rules.h"

namespace titan::nki {

namespace {

/// Bit-vector operations take integers of one size, and convert nothing.
void check_bitvector_dtype(const Checked& checked, std::string_view name, Dtype dtype) {
  const Dtype dst = checked.dst().dtype();
  checked.require(!is_float(dtype) && !is_float(dst), "bitvector-dtype",
                  "bit operations take integers and convert nothing, {} is {} and dst {}", name,
                  dtype_name(dtype), dtype_name(dst));
  checked.require(itemsize(dtype) == itemsize(dst), "bitvector-dtype",
                  "bit operations convert nothing, {} is {} and dst {}: give them one size", name,
                  dtype_name(dtype), dtype_name(dst));
}

void check_not_both_psum(const Checked& checked, std::string_view a, std::string_view b) {
  checked.require(!is_psum(checked.source(0)) || !is_psum(checked.source(1)), "both-psum",
                  "{} and {} are both in PSUM, which VectorE reads one of: copy one to SBUF by tensor_copy",
                  a, b);
}

void check_scalar_dtype(const Checked& checked, std::string_view name, const ScalarOperand& operand,
                        bool bitvector) {
  if (bitvector) {
    if (operand.is_tensor()) {
      check_bitvector_dtype(checked, name, operand.tensor.dtype());
      return;
    }
    checked.require(std::trunc(operand.constant) == operand.constant && std::abs(operand.constant) < 0x1p32,
                    "bitvector-operand", "{} of a bit operation must be a whole number of 32 bits, got {}",
                    name, operand.constant);
    return;
  }
  checked.require(!operand.is_tensor() || operand.tensor.dtype() == Dtype::float32, "scalar-operand-dtype",
                  "{} must be float32 (one number a partition), got {}", name,
                  operand.is_tensor() ? dtype_name(operand.tensor.dtype()) : "a number");
}

/// Of tensor_scalar.
bool is_scalar_operation(Operation op) {
  const bool unary = op == Operation::logical_not || op == Operation::abs || op == Operation::rsqrt;
  return is_arithmetic(op) || unary;
}
bool is_bits(Operation op) { return is_bitvector(op) || op == Operation::bitwise_not; }

void check_scalar_engine(const Checked& checked, const TensorScalar& op) {
  if (checked.runs_on(Engine::gpsimd)) {
    checked.require(op.op0 == Operation::rsqrt && op.op1 == Operation::none, "gpsimd-op",
                    "on GpSimdE tensor_scalar takes rsqrt only, got {}: use VectorE", operation_name(op.op0));
  }
  if (!checked.runs_on(Engine::scalar)) return;
  checked.require(checked.options.generation >= Generation::trn2, "scalar-engine-generation",
                  "ScalarE carries tensor_scalar out from trn2 on: use VectorE");
  const bool multiply =
      op.op0 == Operation::multiply && (op.op1 == Operation::none || op.op1 == Operation::add);
  const bool add = op.op0 == Operation::add && op.op1 == Operation::none;
  checked.require((multiply || add) && !op.reverse0 && !op.reverse1, "scalar-engine-op",
                  "on ScalarE tensor_scalar takes multiply, multiply then add, or add, got {} then {}: use "
                  "VectorE",
                  operation_name(op.op0), operation_name(op.op1));
}

bool holds_integer(Dtype dtype, double value) {
  const int bits = static_cast<int>(itemsize(dtype)) * 8;
  const bool is_signed = dtype == Dtype::int32 || dtype == Dtype::int16 || dtype == Dtype::int8;
  const double lowest = is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
  const double highest = std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1;
  return std::trunc(value) == value && value >= lowest && value <= highest;
}

}  // namespace

void check_rules(const Checked& checked, const TensorTensor& op) {
  check_engine_access(checked);
  check_same_sizes(checked, {"data1", &checked.source(0)}, {"data2", &checked.source(1)});
  check_same_sizes(checked, {"dst", &checked.dst()}, {"data1", &checked.source(0)});
  check_not_both_psum(checked, "data1", "data2");
  const bool known = (is_arithmetic(op.op) || is_bitvector(op.op)) && !is_unary(op.op);
  checked.require(known, "op", "{} is not an operation of two tensors", operation_name(op.op));
  checked.require(op.op != Operation::power || checked.runs_on(Engine::gpsimd), "power-engine",
                  "power runs on GpSimdE only: leave the engine out or name it");
  if (!is_bitvector(op.op)) return;
  check_bitvector_dtype(checked, "data1", checked.source(0).dtype());
  check_bitvector_dtype(checked, "data2", checked.source(1).dtype());
}

void check_rules(const Checked& checked, const TensorScalar& op) {
  check_engine_access(checked);
  check_same_sizes(checked, {"dst", &checked.dst()}, {"data", &checked.source(0)});
  check_scalar_operand(checked, "operand0", op.operand0);
  check_scalar_operand(checked, "operand1", op.operand1);
  const bool has_second = op.op1 != Operation::none;
  checked.require(is_scalar_operation(op.op0) || is_bits(op.op0), "op",
                  "{} is not an operation of tensor_scalar", operation_name(op.op0));
  checked.require(!has_second || is_scalar_operation(op.op1) || is_bits(op.op1), "op",
                  "{} is not an operation of tensor_scalar", operation_name(op.op1));
  checked.require(!has_second || is_bits(op.op0) == is_bits(op.op1), "mixed-ops",
                  "{} and {} do not go together: both are of bits, or neither is", operation_name(op.op0),
                  operation_name(op.op1));
  checked.require(!is_unary(op.op0) || (!op.operand0.is_tensor() && op.operand0.constant == 0),
                  "unary-operand", "{} takes no operand: give it 0", operation_name(op.op0));
  if (is_bits(op.op0)) check_bitvector_dtype(checked, "data", checked.source(0).dtype());
  check_scalar_dtype(checked, "operand0", op.operand0, is_bits(op.op0));
  if (has_second) check_scalar_dtype(checked, "operand1", op.operand1, is_bits(op.op1));
  check_scalar_engine(checked, op);
}

void check_rules(const Checked& checked, const ScalarTensorTensor& op) {
  check_engine_access(checked);
  check_same_sizes(checked, {"data", &checked.source(0)}, {"operand1", &checked.source(1)});
  check_same_sizes(checked, {"dst", &checked.dst()}, {"data", &checked.source(0)});
  check_not_both_psum(checked, "data", "operand1");
  check_scalar_operand(checked, "operand0", op.operand0);
  for (const Operation each : {op.op0, op.op1}) {
    checked.require(is_arithmetic(each) && each != Operation::power, "op",
                    "{} is not an arithmetic operation of two operands", operation_name(each));
  }
}

void check_rules(const Checked& checked, const Reciprocal&) {
  check_engine_access(checked);
  check_same_sizes(checked, {"dst", &checked.dst()}, {"data", &checked.source(0)});
}

void check_rules(const Checked& checked, const Activation& activation) {
  check_engine_access(checked);
  check_same_sizes(checked, {"dst", &checked.dst()}, {"data", &checked.source(0)});
  checked.require(is_activation(activation.op), "op", "{} is not a function of ScalarE",
                  operation_name(activation.op));
  check_scalar_operand(checked, "bias", activation.bias);
  check_scalar_operand(checked, "scale", activation.scale);
  check_scalar_dtype(checked, "scale", activation.scale, false);
  checked.require(!activation.bias.is_tensor() || activation.bias.tensor.dtype() != Dtype::tfloat32,
                  "bias-dtype", "bias may be of any dtype but tfloat32");
  checked.require(activation.bias.is_tensor() || activation.bias.constant == 0 ||
                      checked.options.generation >= Generation::trn2,
                  "bias-generation", "a number as bias needs trn2 or later: give a tensor [P, 1]");
  const Tensor& result = checked.instruction.reduce_dst;
  if (activation.command == ReduceCommand::idle) {
    checked.require(
        activation.reduce == Operation::none && !result.defined(), "reduce-cmd",
        "reduce_op and reduce_res need a reduce_cmd: reset_reduce for the sum of this instruction");
    return;
  }
  checked.require(activation.command != ReduceCommand::load_reduce, "reduce-cmd",
                  "load_reduce is for tensor_scalar_reduce");
  checked.require(activation.reduce == Operation::add, "reduce-op", "ScalarE reduces by add only, got {}",
                  operation_name(activation.reduce));
  if (result.defined()) check_scalar_operand(checked, "reduce_res", ScalarOperand(result));
}

void check_rules(const Checked& checked, const TensorCopy&) {
  check_engine_access(checked);
  check_same_sizes(checked, {"dst", &checked.dst()}, {"src", &checked.source(0)});
  checked.require(!checked.runs_on(Engine::scalar) || checked.options.generation >= Generation::trn2,
                  "scalar-engine-generation", "ScalarE copies from trn2 on: use VectorE");
}

void check_rules(const Checked& checked, const TensorCopyPredicated&) {
  check_engine_access(checked);
  check_same_sizes(checked, {"dst", &checked.dst()}, {"src", &checked.source(0)});
  check_same_sizes(checked, {"dst", &checked.dst()}, {"predicate", &checked.source(1)});
  check_not_both_psum(checked, "src", "predicate");
  checked.require(checked.dst().dtype() == checked.source(0).dtype(), "dtype",
                  "dst and src must have one dtype, got {} and {}", dtype_name(checked.dst().dtype()),
                  dtype_name(checked.source(0).dtype()));
  const Dtype predicate = checked.source(1).dtype();
  checked.require(predicate == Dtype::uint8 || predicate == Dtype::uint16 || predicate == Dtype::uint32,
                  "predicate-dtype", "predicate must be uint8, uint16 or uint32, got {}",
                  dtype_name(predicate));
}

void check_rules(const Checked& checked, const Memset& memset) {
  check_engine_access(checked);
  const Dtype dtype = checked.dst().dtype();
  checked.require(is_float(dtype) || holds_integer(dtype, memset.value), "value",
                  "{} is not a number of {}: the value's kind must be dst's", memset.value,
                  dtype_name(dtype));
}

}  // namespace titan::nki
