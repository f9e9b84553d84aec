#include <algorithm>

#include "titan/nki/execute_parts.h"
#include "titan/nki/execute_rows.h"
#include "titan/nki/reduce_axes.h"

namespace titan::nki {

namespace {

bool is_logical(Operation op) { return op >= Operation::logical_and && op <= Operation::logical_xor; }

/// In order of elements. Logical reductions begin with what changes nothing, since their results are 0 or 1.
float reduce_row(Operation op, const float* row, int64_t count) {
  if (is_logical(op)) return reduce(op, op == Operation::logical_and ? 1.0F : 0.0F, row, count);
  return reduce(op, row[0], row + 1, count - 1);
}

uint32_t reduce_row(Operation op, const uint32_t* row, int64_t count) {
  uint32_t result = row[0];
  for (int64_t i = 1; i < count; ++i) result = apply(op, result, row[i]);
  return result;
}

template <class Sources, class Results, class Finish>
void reduce_elements(Sources data, Results dst, Operation op, const Finish& finish) {
  const int64_t each = data.count() / dst.count();
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    const auto* row = data.at(p);
    for (int64_t i = 0; i < dst.count(); ++i) dst.row()[i] = finish(reduce_row(op, row + i * each, each));
    dst.write(p);
  }
}

void reduce_partition_bits(const Instruction& instruction, Operation op) {
  IntegerRows data(instruction.sources[0], false);
  IntegerResults dst(instruction.dst);
  std::copy_n(data.at(0), dst.count(), dst.row());
  for (int64_t p = 1; p < data.partitions(); ++p) {
    const uint32_t* row = data.at(p);
    for (int64_t i = 0; i < dst.count(); ++i) dst.row()[i] = apply(op, dst.row()[i], row[i]);
  }
  dst.write(0);
}

}  // namespace

void run_tensor_reduce(const Instruction& instruction) {
  const auto& op = std::get<TensorReduce>(instruction.attributes);
  const Tensor& data = instruction.sources[0];
  if (is_bitvector(op.op)) {
    return reduce_elements(IntegerRows(data, false), IntegerResults(instruction.dst), op.op,
                           [](uint32_t bits) { return bits; });
  }
  const float sign = op.negate ? -1.0F : 1.0F;
  reduce_elements(FloatRows(data), FloatResults(instruction.dst), op.op,
                  [sign](float result) { return result * sign; });
}

void run_partition_reduce(const Instruction& instruction) {
  const Operation op = std::get<TensorPartitionReduce>(instruction.attributes).op;
  if (is_bitvector(op)) return reduce_partition_bits(instruction, op);
  const bool averages = op == Operation::average;
  FloatRows data(instruction.sources[0]);
  FloatResults dst(instruction.dst);
  std::copy_n(data.at(0), dst.count(), dst.row());
  for (int64_t p = 1; p < data.partitions(); ++p) {
    apply(averages ? Operation::add : op, Elements(static_cast<const float*>(dst.row())),
          Elements(data.at(p)), dst.row(), dst.count());
  }
  if (averages) {
    const auto number = static_cast<float>(data.partitions());
    apply(Operation::divide, Elements(static_cast<const float*>(dst.row())), number, dst.row(), dst.count());
  }
  dst.write(0);
}

}  // namespace titan::nki
