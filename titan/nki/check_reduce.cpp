#include <algorithm>

#include "titan/nki/check_rules.h"
#include "titan/nki/reduce_axes.h"

namespace titan::nki {

namespace {

bool reduces_partitions(Operation op) {
  return op == Operation::add || op == Operation::average || op == Operation::maximum ||
         op == Operation::bitwise_or || op == Operation::bitwise_and;
}

void check_bits(const Checked& checked, Operation op) {
  if (!is_bitvector(op)) return;
  const Dtype from = checked.source(0).dtype();
  const Dtype to = checked.dst().dtype();
  checked.require(!is_float(from) && !is_float(to) && itemsize(from) == itemsize(to), "bitvector-dtype",
                  "{} takes integers of one size, got {} into {}", operation_name(op), dtype_name(from),
                  dtype_name(to));
}

}  // namespace

void check_rules(const Checked& checked, const TensorReduce& reduce) {
  check_engine_access(checked);
  const Tensor& data = checked.source(0);
  checked.require(is_reduction(reduce.op), "op", "{} is not an operation to reduce by",
                  operation_name(reduce.op));
  check_bits(checked, reduce.op);
  const std::optional<int64_t> reduced = reduced_free_size(data, reduce.axes);
  checked.require(reduced.has_value(), "axis",
                  "axis must be the last free dimensions, without a gap, of data {}; dimension 0 (the "
                  "partitions) is tensor_partition_reduce's",
                  shape_text(data));
  checked.require(checked.dst().partitions() == data.partitions(), "partitions",
                  "dst has {} partitions and data {}: they must agree", checked.dst().partitions(),
                  data.partitions());
  const int64_t left = data.free_size() / *reduced;
  checked.require(checked.dst().free_size() == left, "free-size",
                  "dst has {} elements a partition, the reduction leaves {}", checked.dst().free_size(),
                  left);
  const bool negates = reduce.negate && is_bitvector(reduce.op);
  checked.require(!negates, "negate", "negate multiplies by -1, which {} does not allow",
                  operation_name(reduce.op));
}

void check_rules(const Checked& checked, const TensorPartitionReduce& reduce) {
  check_engine_access(checked);
  checked.require(reduces_partitions(reduce.op), "op",
                  "partitions are reduced by add, average, maximum, bitwise_or or bitwise_and, got {}",
                  operation_name(reduce.op));
  check_bits(checked, reduce.op);
  checked.require(checked.dst().partitions() == 1, "dst-partitions", "dst must be of 1 partition, got {}",
                  checked.dst().partitions());
  checked.require(checked.dst().free_size() == checked.source(0).free_size(), "free-size",
                  "dst has {} elements a partition and data {}: they must agree", checked.dst().free_size(),
                  checked.source(0).free_size());
}

void check_rules(const Checked& checked, const TensorScalarReduce& reduce) {
  check_engine_access(checked);
  check_same_sizes(checked, {"dst", &checked.dst()}, {"data", &checked.source(0)});
  check_scalar_operand(checked, "operand0", reduce.operand0);
  const Tensor& result = checked.instruction.reduce_dst;
  if (result.defined()) check_scalar_operand(checked, "reduce_res", ScalarOperand(result));
  checked.require(reduce.command != ReduceCommand::idle, "reduce-cmd",
                  "it reduces: reduce_cmd is reset, reduce, reset_reduce or load_reduce");
  checked.require(reduce.command == ReduceCommand::load_reduce ||
                      (!reduce.reduce_init.is_tensor() && reduce.reduce_init.constant == 0),
                  "reduce-cmd", "reduce_init is what load_reduce begins with, and no other reduce_cmd");
  check_scalar_operand(checked, "reduce_init", reduce.reduce_init);
  checked.require(is_arithmetic(reduce.op0), "op", "{} is not an arithmetic operation of two operands",
                  operation_name(reduce.op0));
  const Operation by = reduce.reduce;
  checked.require(by == Operation::add || by == Operation::multiply || by == Operation::maximum ||
                      by == Operation::minimum,
                  "reduce-op", "the reduction is by add, multiply, maximum or minimum, got {}",
                  operation_name(by));
  checked.require(!reduce.operand0.is_tensor() || reduce.operand0.tensor.dtype() == Dtype::float32,
                  "scalar-operand-dtype", "operand0 must be float32 (one number a partition)");
}

}  // namespace titan::nki
