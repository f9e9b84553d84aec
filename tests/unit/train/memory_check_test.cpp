#include "titan/train/memory_check.h"

#include <doctest/doctest.h>

#include "titan/base/error.h"
#include "titan/train/device_memory.h"

namespace titan {
namespace {

constexpr int64_t kOneGiB = int64_t{1} << 30;

TrainerConfig named_config() {
  TrainerConfig config;
  config.model_spec.name = "qwen3";
  config.model_spec.flavor = "4B";
  return config;
}

}  // namespace

TEST_CASE("Memory that holds weights, gradients and two moments is enough for one rank") {
  const TrainerConfig config = named_config();
  require_memory(config, {.weight_bytes = kOneGiB, .capacity_bytes = 4 * kOneGiB});
  CHECK_THROWS_WITH_AS(require_memory(config, {.weight_bytes = kOneGiB, .capacity_bytes = 4 * kOneGiB - 1}),
                       doctest::Contains("qwen3 4B needs 4.0 GiB for weights (1.0), gradients (1.0) and "
                                         "optimizer moments (2.0). This machine has 4.0 GiB"),
                       CommonError);
}

TEST_CASE("Every rank of a machine needs its part, what is gathered whole, and its process") {
  const TrainerConfig config = named_config();
  const MemoryDemand demand{.weight_bytes = kOneGiB / 2, .unit_bytes = kOneGiB / 4, .ranks = 2};
  MemoryDemand enough = demand, short_of = demand;
  enough.capacity_bytes = 2 * (2 * kOneGiB + 3 * kOneGiB / 4 + (56 << 20));
  short_of.capacity_bytes = enough.capacity_bytes - 1;
  require_memory(config, enough);
  CHECK_THROWS_WITH_AS(require_memory(config, short_of), doctest::Contains("on the 2 ranks of this machine"),
                       CommonError);
}

TEST_CASE("Moments in bfloat16 take half of it, and swap counts") {
  TrainerConfig config = named_config();
  config.optimizer.implementation = OptimizerImplementation::fused_opt_states_bf16;
  require_memory(config, {.weight_bytes = kOneGiB, .capacity_bytes = 2 * kOneGiB, .swap_bytes = kOneGiB});
}

}  // namespace titan
