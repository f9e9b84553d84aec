#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// When FSDP frees unsharded parameters.
enum class ReshardAfterForward { standard, always, never };
template <>
inline constexpr auto names<ReshardAfterForward> =
    std::to_array<Named<ReshardAfterForward>>({{"default", ReshardAfterForward::standard},
                                               {"always", ReshardAfterForward::always},
                                               {"never", ReshardAfterForward::never}});

/// The reference's choice of sharding implementation.
enum class SpmdBackend { standard, partial_dtensor, full_dtensor, spmd_types };
template <>
inline constexpr auto names<SpmdBackend> =
    std::to_array<Named<SpmdBackend>>({{"default", SpmdBackend::standard},
                                       {"partial_dtensor", SpmdBackend::partial_dtensor},
                                       {"full_dtensor", SpmdBackend::full_dtensor},
                                       {"spmd_types", SpmdBackend::spmd_types}});

/// How ranks divide the work.
struct ParallelismConfig {
  int64_t data_parallel_replicate_degree = 1;
  int64_t data_parallel_shard_degree = -1;
  ReshardAfterForward fsdp_reshard_after_forward = ReshardAfterForward::standard;
  bool fsdp_prefetch = true;
  bool fsdp_defer_gradient_reduction = false;
  bool enable_fsdp_symm_mem = false;
  int64_t tensor_parallel_degree = 1;
  bool enable_async_tensor_parallel = false;
  bool enable_sequence_parallel = true;
  SpmdBackend spmd_backend = SpmdBackend::standard;
  int64_t pipeline_parallel_degree = 1;
  std::optional<std::vector<std::vector<std::string>>> module_fqns_per_model_part = {};
  int64_t pipeline_parallel_first_stage_less_layers = 1;
  int64_t pipeline_parallel_last_stage_less_layers = 1;
  std::optional<int64_t> pipeline_parallel_layers_per_stage = {};
  std::string pipeline_parallel_schedule = "1F1B";
  std::optional<std::string> pipeline_parallel_schedule_csv = "";
  int64_t pipeline_parallel_microbatch_size = 1;
  std::optional<int64_t> num_pp_microbatches = {};
  int64_t context_parallel_degree = 1;
  std::optional<std::string> context_parallel_load_balancer = "headtail";
  std::optional<std::string> context_parallel_ptrr_mask_key = {};
  int64_t expert_parallel_degree = 1;

  void describe(Fields& f) {
    f("data_parallel_replicate_degree", data_parallel_replicate_degree,
      "Groups of ranks, each with a copy of the weights");
    f("data_parallel_shard_degree", data_parallel_shard_degree,
      "Ranks that share one copy of the weights; -1: those that are left");
    f("fsdp_reshard_after_forward", fsdp_reshard_after_forward,
      "Free gathered weights after forward: default (all but the last group), always, never");
    f("fsdp_prefetch", fsdp_prefetch, "Gather the next group of weights while one computes");
    f("fsdp_defer_gradient_reduction", fsdp_defer_gradient_reduction,
      "Sum gradients over the ranks once a step, not once a micro-batch; keeps whole gradients");
    f("enable_fsdp_symm_mem", enable_fsdp_symm_mem, "NVIDIA symmetric memory", Status::refused);
    f("tensor_parallel_degree", tensor_parallel_degree, "Ranks that divide each matrix");
    f("enable_async_tensor_parallel", enable_async_tensor_parallel,
      "Overlap of communication and matrix products", Status::refused);
    f("enable_sequence_parallel", enable_sequence_parallel,
      "Norms on sequence shards under tensor parallelism");
    f("spmd_backend", spmd_backend, "The reference's sharding implementation", Status::no_meaning);
    f("pipeline_parallel_degree", pipeline_parallel_degree, "Ranks that divide the layers", Status::refused);
    f("module_fqns_per_model_part", module_fqns_per_model_part,
      "Explicit pipeline stages, each a list of modules", Status::refused);
    f("pipeline_parallel_first_stage_less_layers", pipeline_parallel_first_stage_less_layers,
      "Layers the first stage is spared", Status::refused);
    f("pipeline_parallel_last_stage_less_layers", pipeline_parallel_last_stage_less_layers,
      "Layers the last stage is spared", Status::refused);
    f("pipeline_parallel_layers_per_stage", pipeline_parallel_layers_per_stage, "Layers per stage",
      Status::refused);
    f("pipeline_parallel_schedule", pipeline_parallel_schedule, "Order of micro-batches", Status::refused);
    f("pipeline_parallel_schedule_csv", pipeline_parallel_schedule_csv, "A file with such an order",
      Status::refused);
    f("pipeline_parallel_microbatch_size", pipeline_parallel_microbatch_size, "Rows per micro-batch",
      Status::refused);
    f("num_pp_microbatches", num_pp_microbatches, "Later versions' count of micro-batches", Status::refused);
    f("context_parallel_degree", context_parallel_degree, "Ranks that divide each row", Status::refused);
    f("context_parallel_load_balancer", context_parallel_load_balancer, "How rows are divided",
      Status::refused);
    f("context_parallel_ptrr_mask_key", context_parallel_ptrr_mask_key, "Mask that drives ptrr",
      Status::refused);
    f("expert_parallel_degree", expert_parallel_degree, "Ranks that divide the experts", Status::refused);
  }

  void validate() const;
};

}  // namespace titan
