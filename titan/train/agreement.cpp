#include "titan/train/agreement.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "titan/ops/adamw.h"

namespace titan {
namespace {

/// Ranks along tp (and cp, pp) repeat the data-parallel rank's numbers: only the first of each counts.
bool speaks_for_its_data(const Mesh& mesh) {
  return mesh.coordinate(Axis::tp) == 0 && mesh.coordinate(Axis::cp) == 0 && mesh.coordinate(Axis::pp) == 0;
}

}  // namespace

std::vector<std::vector<double>> gather_numbers(World& world, const std::vector<double>& mine) {
  Group& all = world.group(Axis::all);
  const auto width = static_cast<int64_t>(mine.size());
  at::Tensor table = at::empty({all.size(), width}, at::kDouble);
  at::Tensor row = at::empty({1, width}, at::kDouble);
  std::ranges::copy(mine, row.mutable_data_ptr<double>());
  all.all_gather({table}, {row}).wait();
  std::vector<std::vector<double>> rows;
  const double* number = table.const_data_ptr<double>();
  for (int64_t rank = 0; rank < all.size(); ++rank, number += width)
    rows.emplace_back(number, number + width);
  return rows;
}

StepPlan agree_on_step(World& world, const StepOffer& mine) {
  const bool counts = speaks_for_its_data(world.mesh());
  StepPlan plan;
  for (const auto& of_rank :
       gather_numbers(world, {counts ? static_cast<double>(mine.valid_tokens) : 0.0,
                              mine.has_data ? 1.0 : 0.0, static_cast<double>(mine.signal)})) {
    plan.valid_tokens += static_cast<int64_t>(of_rank[0]);
    plan.has_data = plan.has_data || of_rank[1] != 0;
    plan.signal = std::max(plan.signal, static_cast<int>(of_rank[2]));
  }
  return plan;
}

StepLoss agree_on_loss(World& world, const RankLoss& mine) {
  const bool counts = speaks_for_its_data(world.mesh());
  StepLoss step;
  double squared_norm = 0;
  for (const auto& of_rank :
       gather_numbers(world, {counts ? mine.share : 0.0, counts ? mine.mean : 0.0, mine.squared_norm})) {
    step.avg_loss += of_rank[0];
    step.max_loss = std::max(step.max_loss, of_rank[1]);
    squared_norm += of_rank[2];
  }
  step.grad_norm = std::sqrt(squared_norm);
  return step;
}

double counted_squared_norm(const std::vector<Module::NamedParameter>& parameters, const Mesh& mesh) {
  if (mesh.coordinate(Axis::dp_replicate) != 0) return 0;
  std::vector<at::Tensor> counted;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor gradient = parameter->shard.grad();
    const bool copy = !parameter->tp.dim && mesh.coordinate(Axis::tp) != 0;
    if (gradient.defined() && !copy) counted.push_back(gradient);
  }
  return squared_norm(counted).item().toDouble();
}

}  // namespace titan
