#include "titan/distributed/mesh.h"

#include <algorithm>
#include <array>
#include <utility>

#include "titan/base/error.h"
#include "titan/base/strings.h"

namespace titan {
namespace {

/// The mesh's own axes from the outermost to the innermost.
constexpr std::array kMeshAxes = {Axis::pp, Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp};

bool covers(Axis axis, Axis mesh_axis) {
  switch (axis) {
    case Axis::batch:
      return mesh_axis == Axis::dp_replicate || mesh_axis == Axis::dp_shard;
    case Axis::loss:
      return covers(Axis::batch, mesh_axis) || mesh_axis == Axis::cp;
    case Axis::fsdp:
      return mesh_axis == Axis::dp_shard || mesh_axis == Axis::cp;
    case Axis::all:
      return true;
    default:
      return axis == mesh_axis;
  }
}

int64_t mesh_degree(const ParallelDims& dims, Axis axis) {
  switch (axis) {
    case Axis::pp:
      return dims.pp;
    case Axis::dp_replicate:
      return dims.dp_replicate;
    case Axis::dp_shard:
      return dims.dp_shard;
    case Axis::cp:
      return dims.cp;
    default:
      return dims.tp;
  }
}

void check_degree(std::string_view field, int64_t degree) {
  if (degree >= 1) return;
  throw ConfigError("parallelism.{} is {}; it must be 1 or more", field, degree);
}

}  // namespace

ParallelDims ParallelDims::resolve(ParallelDims degrees) {
  ParallelDims& d = degrees;
  check_degree("data_parallel_replicate_degree", d.dp_replicate);
  check_degree("context_parallel_degree", d.cp);
  check_degree("tensor_parallel_degree", d.tp);
  check_degree("pipeline_parallel_degree", d.pp);
  check_degree("expert_parallel_degree", d.ep);
  if (d.dp_shard < 1 && d.dp_shard != -1) {
    throw ConfigError(
        "parallelism.data_parallel_shard_degree is {}; it must be 1 or more, or -1 for the ranks that the "
        "other degrees leave",
        d.dp_shard);
  }
  // Stops multiplying above the number of ranks, where no degrees fit and the product could overflow.
  int64_t others = 1;
  for (const int64_t degree : {d.dp_replicate, d.cp, d.tp, d.pp}) {
    others = std::max(others, degree) > d.world_size ? d.world_size + 1 : others * degree;
  }
  const std::string_view hint =
      d.world_size == 1 ? "; this run has one rank, `titan torchrun --nproc_per_node=N` starts more" : "";
  if (d.dp_shard == -1 && d.world_size % others != 0) {
    throw ConfigError(
        "Invalid parallel dims: parallelism.data_parallel_shard_degree is -1, what is left of the ranks, but "
        "dp_replicate({}) * cp({}) * tp({}) * pp({}) does not divide WORLD_SIZE({}){}",
        d.dp_replicate, d.cp, d.tp, d.pp, d.world_size, hint);
  }
  if (d.dp_shard == -1) d.dp_shard = d.world_size / others;
  if (d.dp_shard > d.world_size || others * d.dp_shard != d.world_size) {
    throw ConfigError(
        "Invalid parallel dims: dp_replicate({}) * dp_shard({}) * cp({}) * tp({}) * pp({}) != "
        "WORLD_SIZE({}){}",
        d.dp_replicate, d.dp_shard, d.cp, d.tp, d.pp, d.world_size, hint);
  }
  const int64_t expert_ranks = d.dp_shard * d.cp * d.tp;
  if (expert_ranks % d.ep != 0) {
    throw ConfigError(
        "parallelism.expert_parallel_degree is {}; it must divide dp_shard({}) * cp({}) * tp({}) = {}", d.ep,
        d.dp_shard, d.cp, d.tp, expert_ranks);
  }
  return d;
}

int64_t ParallelDims::degree(Axis axis) const {
  int64_t product = 1;
  for (const Axis mesh_axis : kMeshAxes) {
    if (covers(axis, mesh_axis)) product *= mesh_degree(*this, mesh_axis);
  }
  return product;
}

std::string ParallelDims::text() const {
  return format("pp={}, dp_replicate={}, dp_shard={}, cp={}, tp={}, ep={}", pp, dp_replicate, dp_shard, cp,
                tp, ep);
}

std::string ParallelDims::active() const {
  std::vector<std::string> names;
  for (const Axis axis : kMeshAxes) {
    if (degree(axis) > 1) names.push_back(format("'{}'", axis_name(axis)));
  }
  if (ep > 1) names.emplace_back("'ep'");
  return format("[{}]", join(names, ", "));
}

Mesh::Mesh(ParallelDims dims, int64_t rank) : dims_(dims), rank_(rank) {
  check(dims.degree(Axis::all) == dims.world_size, "the degrees of a mesh multiply to its ranks");
  check(rank >= 0 && rank < dims.world_size, "a rank lies in its mesh");
}

int64_t Mesh::coordinate(Axis axis) const {
  int64_t coordinate = 0, below = dims_.world_size;
  for (const Axis mesh_axis : kMeshAxes) {
    const int64_t degree = mesh_degree(dims_, mesh_axis);
    below /= degree;
    if (covers(axis, mesh_axis)) coordinate = coordinate * degree + rank_ / below % degree;
  }
  return coordinate;
}

std::vector<int64_t> Mesh::peers(Axis axis) const {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < dims_.world_size; ++rank) {
    int64_t below = dims_.world_size;
    bool same = true;
    for (const Axis mesh_axis : kMeshAxes) {
      const int64_t degree = mesh_degree(dims_, mesh_axis);
      below /= degree;
      same = same && (covers(axis, mesh_axis) || rank / below % degree == rank_ / below % degree);
    }
    if (same) ranks.push_back(rank);
  }
  return ranks;
}

std::string_view axis_name(Axis axis) {
  constexpr std::array<std::string_view, 9> kNames = {"pp",    "dp_replicate", "dp_shard", "cp", "tp",
                                                      "batch", "loss",         "fsdp",     "all"};
  return kNames.at(static_cast<size_t>(axis));
}

}  // namespace titan
