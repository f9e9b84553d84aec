#include "titan/train/mesh_setup.h"

#include <chrono>

#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/models/common/check_tensor_parallel.h"

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

std::unique_ptr<World> meet_ranks(const Launch& launch, const ParallelDims& dims, const CommConfig& comm) {
  log_info("Building device mesh with parallelism: {}", dims.text());
  auto world = std::make_unique<World>(launch, dims, std::chrono::seconds(comm.init_timeout_seconds));
  log_info("Successfully created meshes with active dimensions: {}", dims.active());
  return world;
}

}  // namespace titan
