#include "titan/train/mesh_setup.h"

#include <chrono>

#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/base/sha256.h"
#include "titan/base/strings.h"
#include "titan/models/common/check_tensor_parallel.h"
#include "titan/train/agreement.h"

namespace titan {

ParallelDims resolve_mesh(const TrainerConfig& config, int64_t world_size) {
  const ParallelismConfig& parallelism = config.parallelism;
  const ParallelDims dims = ParallelDims::resolve({.pp = parallelism.pipeline_parallel_degree,
                                                   .dp_replicate = parallelism.data_parallel_replicate_degree,
                                                   .dp_shard = parallelism.data_parallel_shard_degree,
                                                   .cp = parallelism.context_parallel_degree,
                                                   .tp = parallelism.tensor_parallel_degree,
                                                   .ep = parallelism.expert_parallel_degree,
                                                   .world_size = world_size});
  gradient_accumulation_steps(config.training, dims.degree(Axis::batch));
  check_tensor_parallel(*config.model_spec.model, dims.tp, parallelism.enable_sequence_parallel,
                        config.training.seq_len);
  return dims;
}

void require_same_config(World& world, const Json& config) {
  // 52 bits of the hash: as many as a double carries exactly.
  const auto mark = static_cast<double>(std::stoull(sha256(config.dump()).substr(0, 13), nullptr, 16));
  const auto marks = gather_numbers(world, {mark});
  std::vector<std::string> others;
  for (size_t rank = 0; rank < marks.size(); ++rank) {
    if (marks[rank] != marks[0]) others.push_back(std::to_string(rank));
  }
  if (others.empty()) return;
  throw CommonError(
      "rank(s) {} of this job have another configuration than rank 0: start all with the same arguments, "
      "environment and modules (`titan config --json` prints what a command line means)",
      join(others, ", "));
}

std::unique_ptr<World> meet_ranks(const Launch& launch, const ParallelDims& dims, const CommConfig& comm) {
  log_info("Building device mesh with parallelism: {}", dims.text());
  auto world = std::make_unique<World>(launch, dims, std::chrono::seconds(comm.init_timeout_seconds));
  log_info("Successfully created meshes with active dimensions: {}", dims.active());
  return world;
}

}  // namespace titan
