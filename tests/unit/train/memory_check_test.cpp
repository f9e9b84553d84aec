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

TEST_CASE(
    "On a device one rank has to fit into its core, and all of them into the machine that emulates it") {
  const TrainerConfig config = named_config();
  const MemoryDemand enough{.weight_bytes = kOneGiB,
                            .ranks = 2,
                            .capacity_bytes = 9 * kOneGiB,
                            .hbm_bytes = 4 * kOneGiB,
                            .emulated_hbm = true};
  require_memory(config, enough);
  MemoryDemand small_core = enough, small_host = enough;
  small_core.hbm_bytes -= 1;
  CHECK_THROWS_WITH_AS(
      require_memory(config, small_core),
      doctest::Contains("qwen3 4B needs 4.0 GiB on every rank's core: weights (1.0), gradients "
                        "(1.0) and optimizer moments (2.0), and weights and gradients that "
                        "are whole at a time (0.0). A core has 4.0 GiB of HBM (emulated); take"),
      CommonError);
  small_host.capacity_bytes = 8 * kOneGiB;
  CHECK_THROWS_WITH_AS(require_memory(config, small_host),
                       doctest::Contains("8.0 GiB of memory and 0.0 GiB of swap, which the 4.0 GiB of HBM "
                                         "(emulated) of every rank are part of"),
                       CommonError);
  // A device that is there has memory of its own.
  small_host.emulated_hbm = false;
  require_memory(config, small_host);
}

}  // namespace titan
