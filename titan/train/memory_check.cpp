#include "titan/train/memory_check.h"

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/train/device_memory.h"

namespace titan {
namespace {

/// What a process holds before it has a model, mostly libtorch's table of operators: private pages of
/// /proc/PID/smaps_rollup.
constexpr int64_t kProcessBytes = 56 << 20;

std::string gib(int64_t bytes) { return fixed(static_cast<double>(bytes) / kGiB, 1); }

}  // namespace

void require_memory(const TrainerConfig& config, const MemoryDemand& demand) {
  const bool small_moments =
      config.optimizer.implementation == OptimizerImplementation::fused_opt_states_bf16;
  const bool small_weights = config.training.dtype == TrainingDtype::bfloat16;
  const int64_t weights = demand.weight_bytes;
  const int64_t moments = small_moments && !small_weights ? weights : 2 * weights;
  const bool several = demand.ranks > 1;
  // Two units of weights and one of gradients are whole at a time.
  const int64_t whole = 3 * demand.unit_bytes, process = several ? kProcessBytes : 0;
  const int64_t needed = demand.ranks * (2 * weights + moments + whole + process);
  if (needed <= demand.capacity_bytes + demand.swap_bytes) return;

  const std::string parts = format("weights ({}), gradients ({}) and optimizer moments ({})", gib(weights),
                                   gib(weights), gib(moments));
  const std::string of_ranks =
      several ? format(
                    " on the {} ranks of this machine: each {}, weights and gradients that are whole at a "
                    "time ({}) and the process itself ({})",
                    demand.ranks, parts, gib(whole), gib(process))
              : format(" for {}", parts);
  throw CommonError(
      "{} {} needs {} GiB{}. This machine has {} GiB of memory and {} GiB of swap; take a smaller flavor, {}"
      "training.dtype bfloat16 or optimizer.implementation fused_opt_states_bf16",
      config.model_spec.name, config.model_spec.flavor, gib(needed), of_ranks, gib(demand.capacity_bytes),
      gib(demand.swap_bytes), several ? "fewer ranks a machine, " : "");
}

}  // namespace titan
