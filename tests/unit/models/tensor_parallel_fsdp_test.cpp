#include <ATen/TensorOperators.h>
#include <doctest/doctest.h>

#include "tests/unit/models/tensor_parallel_ranks.h"
#include "tests/unit/test_device.h"
#include "titan/distributed/fsdp.h"
#include "titan/distributed/lone_group.h"

namespace titan {

using namespace tests;

TEST_CASE("weights cut over two tensor-parallel ranks and then over two more train like whole ones") {
  constexpr int64_t kTp = 2, kShards = 2;
  for (const bool tied : {false, true}) {
    auto config = qwen3::make_model(small_sizes(2, tied));
    config.layers[0]->attention->wo->bias = true;
    const Computed alone = compute_alone(config, {});
    std::vector<std::shared_ptr<Meeting>> of_shard, of_tp;
    for (int64_t i = 0; i < 2; ++i) {
      of_shard.push_back(std::make_shared<Meeting>(kTp));
      of_tp.push_back(std::make_shared<Meeting>(kShards));
    }
    std::vector<std::map<std::string, Parameter>> held(kTp * kShards);
    std::vector<double> losses(kTp * kShards);
    run_ranks(kTp * kShards, [&](int64_t rank) {
      const int64_t shard = rank / kTp, tp = rank % kTp;
      ThreadGroup tp_group(of_shard[static_cast<size_t>(shard)], {0, 1}, tp);
      ThreadGroup shard_group(of_tp[static_cast<size_t>(tp)], {0, 1}, shard);
      LoneGroup replicate("replicate", rank);
      const auto model = build_model(config);
      tensor_parallel(*model, model->tensor_sharding(true), tp_group);
      model->set_tensor_axis(tensor_axis(tp_group));
      model->set_recompute(Recompute::selective);
      shard_parameters(*model, kShards, shard);
      materialize(*model, at::kFloat, tests::test_device(), 5);
      FullyShardedModel sharded(model->sharding_units(), shard_group, replicate, {});
      const at::Tensor loss = model->loss(two_documents(), 40.0);
      backward(loss);
      sharded.finish_backward();
      const auto parameters = model->named_parameters();
      sum_partial_gradients(parameters, tp_group);
      losses[static_cast<size_t>(rank)] = loss.item<double>();
      for (const auto& [name, parameter] : parameters) held[static_cast<size_t>(rank)][name] = *parameter;
    });
    for (size_t rank = 0; rank < held.size(); ++rank) {
      CHECK(std::abs(losses[rank] - alone.loss) <= 1e-5 * alone.loss);
      for (const auto& [name, parameter] : held[rank]) {
        INFO(name);
        if (parameter.shard.numel() == 0) continue;
        REQUIRE(parameter.shard.grad().defined());
        // Both shard ranks read the same rows, so their gradients' sum is twice the gradient.
        CHECK(relative(parameter.shard.grad(), part_of(alone.grads.at(name), parameter.shard_block) * 2) <=
              1e-5);
      }
    }
  }
}

}  // namespace titan
