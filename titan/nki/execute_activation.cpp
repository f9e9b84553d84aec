#include "titan/nki/accumulators.h"
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

void run_activation(Core& core, const Instruction& instruction) {
  const auto& op = std::get<Activation>(instruction.attributes);
  const bool reduces = op.command != ReduceCommand::idle;
  Accumulators& sums = core.accumulators(Engine::scalar);
  const int64_t first = first_partition(instruction.dst);
  FloatRows data(instruction.sources[0]);
  FloatScalars bias(op.bias), scale(op.scale);
  FloatResults dst(instruction.dst);
  std::optional<FloatResults> reduced;
  if (instruction.reduce_dst.defined()) reduced.emplace(instruction.reduce_dst);
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    float* row = dst.row();
    scale_and_bias(op, data.at(p), scale.at(p), bias.at(p), row, dst.count());
    apply(op.op, Elements(static_cast<const float*>(row)), 0.0F, row, dst.count());
    const float sum = reduces ? sums.run(op.command, op.reduce, 0.0F, row, dst.count(), first + p) : 0.0F;
    dst.write(p);
    if (!reduced) continue;
    *reduced->row() = sum;
    reduced->write(p);
  }
}

}  // namespace titan::nki
