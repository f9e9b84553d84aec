#include "titan/train/parallelize.h"

#include "titan/base/log.h"
#include "titan/base/strings.h"
#include "titan/distributed/tensor_parallel.h"

namespace titan {

void cut_over_tensor_ranks(LanguageModel& model, Group& ranks, const ParallelismConfig& config) {
  tensor_parallel(model, model.tensor_sharding(config.enable_sequence_parallel), ranks);
  model.set_tensor_axis(tensor_axis(ranks));
}

void lay_out(LanguageModel& model, World& world, const ParallelismConfig& config) {
  const Mesh& mesh = world.mesh();
  if (mesh.dims().tp > 1) {
    cut_over_tensor_ranks(model, world.group(Axis::tp), config);
    log_info("Applied Tensor Parallelism to the model");
  }
  shard_parameters(model, mesh.dims().degree(Axis::fsdp), mesh.coordinate(Axis::fsdp));
}

std::unique_ptr<FullyShardedModel> shard_fully(LanguageModel& model, World& world,
                                               const ParallelismConfig& config, at::ScalarType param_dtype) {
  Group& shards = world.group(Axis::fsdp);
  Group& replicas = world.group(Axis::dp_replicate);
  if (shards.size() == 1 && replicas.size() == 1) return nullptr;
  const FsdpOptions options{
      .param_dtype = param_dtype,
      .reshard_after_forward = config.fsdp_reshard_after_forward != ReshardAfterForward::never,
      .reshard_last_after_forward = config.fsdp_reshard_after_forward == ReshardAfterForward::always,
      .prefetch = config.fsdp_prefetch,
      .defer_reduce = config.fsdp_defer_gradient_reduction};
  auto sharded = std::make_unique<FullyShardedModel>(model.sharding_units(), shards, replicas, options);
  log_info("Applied {} to the model", shards.size() == 1 ? "DDP" : replicas.size() > 1 ? "HSDP" : "FSDP");
  if (config.fsdp_defer_gradient_reduction) {
    log_info("Deferred gradient reduction keeps {} bytes of whole gradients on every rank",
             with_commas(sharded->deferred_gradient_bytes()));
  }
  return sharded;
}

}  // namespace titan
