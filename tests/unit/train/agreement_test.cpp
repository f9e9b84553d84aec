#include "titan/train/agreement.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tests/unit/distributed/thread_ranks.h"
#include "titan/train/train_step.h"
#include "titan/train/validate.h"

namespace titan {
namespace {

constexpr std::chrono::seconds kLimit(60);

/// Runs `rank_main(world)` on a thread for each rank of a job; the threads meet at a store as processes do.
void run_world(ParallelDims dims, const std::function<void(World&)>& rank_main) {
  dims = ParallelDims::resolve(dims);
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  tests::run_ranks(dims.world_size, [&](int64_t rank) {
    World world({.rank = rank,
                 .world_size = dims.world_size,
                 .master_addr = "127.0.0.1",
                 .master_port = store->getPort(),
                 .agent_store = true},
                dims, kLimit);
    rank_main(world);
  });
}

const ParallelDims kReplicasShardsTensor{.dp_replicate = 2, .dp_shard = 2, .tp = 2, .world_size = 8};

}  // namespace

TEST_CASE("Labels are counted over the ranks that read different rows, and anybody's word is everybody's") {
  run_world(kReplicasShardsTensor, [](World& world) {
    const int64_t rank = world.launch().rank;
    const StepPlan plan = agree_on_step(
        world, {.valid_tokens = 10 + rank / 2, .has_data = rank == 5, .signal = rank == 6 ? 15 : 0});
    CHECK(plan.valid_tokens == 10 + 11 + 12 + 13);
    CHECK(plan.has_data);
    CHECK(plan.signal == 15);
    const StepPlan nothing = agree_on_step(world, {});
    CHECK(nothing.valid_tokens == 0);
    CHECK_FALSE(nothing.has_data);
    CHECK(nothing.signal == 0);
  });
}

TEST_CASE("Shares of the loss add up, the largest mean is found, every rank's squares enter the norm") {
  run_world(kReplicasShardsTensor, [](World& world) {
    const int64_t rank = world.launch().rank;
    const auto data_rank = static_cast<double>(rank / 2);
    // Were a tensor-parallel peer's mean heard, 100 would be the largest.
    const StepLoss loss = agree_on_loss(world, {.share = 1 + data_rank,
                                                .mean = rank % 2 ? 100 : 7 - data_rank,
                                                .squared_norm = static_cast<double>(rank)});
    CHECK(loss.avg_loss == 1 + 2 + 3 + 4);
    CHECK(loss.max_loss == 7);
    CHECK(loss.grad_norm == doctest::Approx(std::sqrt(28.0)).epsilon(1e-15));
  });
}

TEST_CASE("A rank without rows goes on with padding until nobody has rows") {
  run_world({.dp_replicate = 1, .dp_shard = 2, .tp = 1, .world_size = 2}, [](World& world) {
    const auto batch = [](int64_t valid, int64_t ignored) {
      Batch made{.rows = 1, .seq_len = valid + ignored};
      made.labels.assign(static_cast<size_t>(valid), 1);
      made.labels.resize(static_cast<size_t>(made.seq_len), kIgnoredLabel);
      return made;
    };
    int64_t left = world.launch().rank == 0 ? 1 : 3, calls = 0;
    const ValidationRows rows{.next = [&]() -> std::optional<Batch> {
                                if (left-- <= 0) return std::nullopt;
                                return world.launch().rank == 0 ? batch(1, 3) : batch(4, 0);
                              },
                              .padding = [&] { return batch(0, 4); }};
    const auto loss = [&](const Batch& b, double normalizer) {
      ++calls;
      return at::full({}, (b.valid_tokens() == 1 ? 2.0 : 8.0) / normalizer, at::kFloat);
    };
    const ValidationResult result = validate(rows, loss, -1, world);
    CHECK(calls == 3);
    CHECK(result.valid_tokens == 1 + 3 * 4);
    CHECK(result.loss == doctest::Approx((2.0 + 3 * 8.0) / 13));
  });
}

}  // namespace titan
