#include "titan/train/memory_check.h"

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/train/device_memory.h"

namespace titan {
namespace {

/// What a process holds before it has a model, mostly libtorch's table of operators: private pages of
/// /proc/PID/smaps_rollup.
constexpr int64_t kProcessBytes = 56 << 20;

std::string gib(int64_t bytes) {
  const double number = static_cast<double>(bytes) / kGiB;
  return fixed(number, number >= 1 || bytes == 0 ? 1 : number >= 0.1 ? 2 : 4);
}

/// What one rank holds, in bytes.
struct RankNeed {
  int64_t weights, moments, whole;
  int64_t total() const { return 2 * weights + moments + whole; }
  std::string parts() const {
    return format("weights ({}), gradients ({}) and optimizer moments ({})", gib(weights), gib(weights),
                  gib(moments));
  }
};

RankNeed need_of_rank(const TrainerConfig& config, const MemoryDemand& demand) {
  const bool small_moments =
      config.optimizer.implementation == OptimizerImplementation::fused_opt_states_bf16;
  const bool small_weights = config.training.dtype == TrainingDtype::bfloat16;
  const int64_t weights = demand.weight_bytes;
  // Two units of weights and one of gradients are whole at a time.
  return {.weights = weights,
          .moments = small_moments && !small_weights ? weights : 2 * weights,
          .whole = 3 * demand.unit_bytes};
}

void require_hbm(const TrainerConfig& config, const MemoryDemand& demand, const RankNeed& need) {
  if (need.total() <= demand.hbm_bytes) return;
  throw CommonError(
      "{} {} needs {} GiB on every rank's core: {}, and weights and gradients that are whole at a time ({}). "
      "A core has {} GiB of HBM{}; take a smaller flavor, more ranks that share the weights "
      "(parallelism.data_parallel_shard_degree or tensor_parallel_degree), training.dtype bfloat16 or "
      "optimizer.implementation fused_opt_states_bf16",
      config.model_spec.name, config.model_spec.flavor, gib(need.total()), need.parts(), gib(need.whole),
      gib(demand.hbm_bytes), demand.emulated_hbm ? " (emulated)" : "");
}

void require_host_memory(const TrainerConfig& config, const MemoryDemand& demand, const RankNeed& need) {
  const bool several = demand.ranks > 1;
  const int64_t process = several ? kProcessBytes : 0;
  const int64_t needed = demand.ranks * (need.total() + process);
  if (needed <= demand.capacity_bytes + demand.swap_bytes) return;

  const std::string of_ranks =
      several ? format(
                    " on the {} ranks of this machine: each {}, weights and gradients that are whole at a "
                    "time ({}) and the process itself ({})",
                    demand.ranks, need.parts(), gib(need.whole), gib(process))
              : format(" for {}", need.parts());
  const std::string emulated =
      demand.emulated_hbm
          ? format(", which the {} GiB of HBM (emulated) of every rank are part of", gib(demand.hbm_bytes))
          : "";
  throw CommonError(
      "{} {} needs {} GiB{}. This machine has {} GiB of memory and {} GiB of swap{}; take a smaller flavor, "
      "{}"
      "training.dtype bfloat16 or optimizer.implementation fused_opt_states_bf16",
      config.model_spec.name, config.model_spec.flavor, gib(needed), of_ranks, gib(demand.capacity_bytes),
      gib(demand.swap_bytes), emulated, several ? "fewer ranks a machine, " : "");
}

}  // namespace

void require_memory(const TrainerConfig& config, const MemoryDemand& demand) {
  const RankNeed need = need_of_rank(config, demand);
  if (demand.hbm_bytes > 0) require_hbm(config, demand, need);
  if (demand.hbm_bytes == 0 || demand.emulated_hbm) require_host_memory(config, demand, need);
}

}  // namespace titan
