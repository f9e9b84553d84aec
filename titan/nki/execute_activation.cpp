#include "titan/nki/execute_parts.h"
#include "titan/nki/execute_rows.h"

namespace titan::nki {

namespace {

/// to = from * scale + bias, each rounded; what is not there is left out.
void scale_and_bias(const Activation& op, const float* from, float scale, float bias, float* to,
                    int64_t count) {
  apply(Operation::multiply, Elements(from), scale, to, count);
  if (op.has_bias) apply(Operation::add, Elements(static_cast<const float*>(to)), bias, to, count);
}

}  // namespace

void run_activation(const Instruction& instruction) {
  const auto& op = std::get<Activation>(instruction.attributes);
  const bool reduces = op.reduce != Operation::none;
  FloatRows data(instruction.sources[0]);
  FloatScalars bias(op.bias), scale(op.scale);
  FloatResults dst(instruction.dst);
  std::optional<FloatResults> reduced;
  if (reduces) reduced.emplace(instruction.reduce_dst);
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    float* row = dst.row();
    scale_and_bias(op, data.at(p), scale.at(p), bias.at(p), row, dst.count());
    apply(op.op, Elements(static_cast<const float*>(row)), 0.0F, row, dst.count());
    if (reduces) *reduced->row() = reduce(op.reduce, row[0], row + 1, dst.count() - 1);
    dst.write(p);
    if (reduces) reduced->write(p);
  }
}

}  // namespace titan::nki
