#include "titan/nki/accumulators.h"
#include "titan/nki/execute_parts.h"
#include "titan/nki/execute_rows.h"

namespace titan::nki {

namespace {

Elements row_of(const float* row) { return row; }

/// to = from op number, or the other way round.
void apply_scalar(Operation op, bool reverse, const float* from, float number, float* to, int64_t count) {
  if (reverse && !is_unary(op)) {
    apply(op, number, row_of(from), to, count);
  } else {
    apply(op, row_of(from), number, to, count);
  }
}

bool is_32_bits(const Tensor& tensor) {
  return tensor.dtype() == Dtype::int32 || tensor.dtype() == Dtype::uint32;
}

/// GpSimdE computes exactly on 32-bit integers where the operation has a meaning there.
bool is_exact(const Instruction& instruction, Operation op) {
  return instruction.engine == Engine::gpsimd && is_32_bits(instruction.dst) &&
         is_32_bits(instruction.sources[0]) && is_32_bits(instruction.sources[1]) && op != Operation::power &&
         op != Operation::average;
}

void combine_integers(const Instruction& instruction, Operation op) {
  const bool extends_sign = op == Operation::arithmetic_right_shift;
  const bool is_signed =
      instruction.sources[0].dtype() == Dtype::int32 && instruction.sources[1].dtype() == Dtype::int32;
  IntegerRows data1(instruction.sources[0], extends_sign), data2(instruction.sources[1], false);
  IntegerResults dst(instruction.dst);
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    const uint32_t *a = data1.at(p), *b = data2.at(p);
    for (int64_t i = 0; i < dst.count(); ++i) {
      dst.row()[i] =
          is_signed ? static_cast<uint32_t>(apply(op, static_cast<int32_t>(a[i]), static_cast<int32_t>(b[i])))
                    : apply(op, a[i], b[i]);
    }
    dst.write(p);
  }
}

/// A scalar operand of a bit operation.
class BitScalars {
 public:
  explicit BitScalars(const ScalarOperand& operand)
      : number_(static_cast<uint32_t>(static_cast<int64_t>(operand.constant))) {
    if (operand.is_tensor()) rows_.emplace(operand.tensor, false);
  }
  uint32_t at(int64_t partition) { return rows_ ? *rows_->at(partition) : number_; }

 private:
  std::optional<IntegerRows> rows_;
  uint32_t number_;
};

void apply_bits(Operation op, bool reverse, uint32_t number, int64_t item, uint32_t* row, int64_t count) {
  // An arithmetic shift works on the sign of the element's own size.
  const auto unused = static_cast<uint32_t>(32 - 8 * item);
  const auto extended = [&](uint32_t x) {
    return static_cast<uint32_t>(static_cast<int32_t>(x << unused) >> unused);
  };
  const auto clipped = [&](uint32_t x) { return x << unused >> unused; };
  const bool extends_sign = op == Operation::arithmetic_right_shift;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t a = reverse ? number : row[i], b = reverse ? row[i] : number;
    row[i] = apply(op, extends_sign ? extended(a) : clipped(a), b);
    row[i] = clipped(row[i]);
  }
}

void run_tensor_scalar_bits(const Instruction& instruction, const TensorScalar& op) {
  IntegerRows data(instruction.sources[0], false);
  BitScalars operand0(op.operand0), operand1(op.operand1);
  IntegerResults dst(instruction.dst);
  const int64_t item = itemsize(instruction.dst.dtype());
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    std::copy_n(data.at(p), dst.count(), dst.row());
    const auto apply_one = [&](Operation each, bool reverse, uint32_t number) {
      apply_bits(each, reverse && !is_unary(each), number, item, dst.row(), dst.count());
    };
    apply_one(op.op0, op.reverse0, operand0.at(p));
    if (op.op1 != Operation::none) apply_one(op.op1, op.reverse1, operand1.at(p));
    dst.write(p);
  }
}

}  // namespace

void run_tensor_tensor(const Instruction& instruction) {
  const Operation op = std::get<TensorTensor>(instruction.attributes).op;
  if (is_bitvector(op) || is_exact(instruction, op)) return combine_integers(instruction, op);
  FloatRows data1(instruction.sources[0]), data2(instruction.sources[1]);
  FloatResults dst(instruction.dst);
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    apply(op, row_of(data1.at(p)), row_of(data2.at(p)), dst.row(), dst.count());
    dst.write(p);
  }
}

void run_tensor_scalar(const Instruction& instruction) {
  const auto& op = std::get<TensorScalar>(instruction.attributes);
  if (is_bitvector(op.op0)) return run_tensor_scalar_bits(instruction, op);
  FloatRows data(instruction.sources[0]);
  FloatScalars operand0(op.operand0), operand1(op.operand1);
  FloatResults dst(instruction.dst);
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    apply_scalar(op.op0, op.reverse0, data.at(p), operand0.at(p), dst.row(), dst.count());
    if (op.op1 != Operation::none) {
      apply_scalar(op.op1, op.reverse1, dst.row(), operand1.at(p), dst.row(), dst.count());
    }
    dst.write(p);
  }
}

void run_scalar_tensor_tensor(const Instruction& instruction) {
  const auto& op = std::get<ScalarTensorTensor>(instruction.attributes);
  FloatRows data(instruction.sources[0]), operand1(instruction.sources[1]);
  FloatScalars operand0(op.operand0);
  FloatResults dst(instruction.dst);
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    apply_scalar(op.op0, op.reverse0, data.at(p), operand0.at(p), dst.row(), dst.count());
    const Elements left = row_of(dst.row()), right = row_of(operand1.at(p));
    apply(op.op1, op.reverse1 ? right : left, op.reverse1 ? left : right, dst.row(), dst.count());
    dst.write(p);
  }
}

void run_tensor_scalar_reduce(Core& core, const Instruction& instruction) {
  const auto& op = std::get<TensorScalarReduce>(instruction.attributes);
  Accumulators& results = core.accumulators(Engine::vector);
  const int64_t first = first_partition(instruction.dst);
  FloatRows data(instruction.sources[0]);
  FloatScalars operand0(op.operand0), init(op.reduce_init);
  FloatResults dst(instruction.dst);
  std::optional<FloatResults> reduced;
  if (instruction.reduce_dst.defined()) reduced.emplace(instruction.reduce_dst);
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    apply_scalar(op.op0, op.reverse0, data.at(p), operand0.at(p), dst.row(), dst.count());
    const float result = results.run(op.command, op.reduce, init.at(p), dst.row(), dst.count(), first + p);
    dst.write(p);
    if (!reduced) continue;
    *reduced->row() = op.negate ? -result : result;
    reduced->write(p);
  }
}

void run_reciprocal(const Instruction& instruction) {
  FloatRows data(instruction.sources[0]);
  FloatResults dst(instruction.dst);
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    apply(Operation::reciprocal, row_of(data.at(p)), 0.0F, dst.row(), dst.count());
    dst.write(p);
  }
}

}  // namespace titan::nki
