#include "titan/train/train_step.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/distributed/thread_ranks.h"
#include "tests/unit/test_device.h"
#include "titan/base/error.h"

namespace titan {
namespace {

Batch batch_of(int64_t valid, int64_t ignored = 0) {
  Batch batch;
  batch.rows = 1;
  batch.seq_len = valid + ignored;
  const auto size = static_cast<size_t>(batch.seq_len);
  batch.input_ids.assign(size, 0);
  batch.positions.assign(size, 0);
  batch.labels.assign(size, 1);
  for (size_t i = 0; i < static_cast<size_t>(ignored); ++i) batch.labels[i] = kIgnoredLabel;
  return batch;
}

/// One weight of value 1 whose micro-batch loss sums to 2 for one valid token and to 90 for nine, as its
/// gradient.
struct TwoLosses {
  Parameter parameter{.shape = {1}, .init = {}, .trainable = true, .shard = at::full({1}, 1.0, at::kFloat)};
  std::vector<Module::NamedParameter> parameters{{"weight", &parameter}};

  TwoLosses() { parameter.shard.set_requires_grad(true); }

  LossFunction loss() {
    return [this](const Batch& batch, double normalizer) {
      const double sum = batch.valid_tokens() == 1 ? 2.0 : 90.0;
      return at::sum(at::mul(parameter.shard, sum / normalizer));
    };
  }
};

class OneWeight final : public Module {
 public:
  OneWeight() { add_parameter("weight", weight, {1}, {Init::Kind::constant, 1.0}); }
  Parameter weight;
};

Optimizer optimizer_for(const TwoLosses& model) {
  OptimizerConfig config = default_adamw(0.1);
  return Optimizer(config, model.parameters);
}

}  // namespace

TEST_CASE("Every token weighs the same: lengths 1 and 9 with losses 2 and 90 give 9.2, not 6.0") {
  TwoLosses model;
  const std::vector<Batch> micro_batches = {batch_of(1, 3), batch_of(9)};
  const RankLoss result = accumulate_gradients(micro_batches, model.loss(), 10, nullptr);
  CHECK(result.share == doctest::Approx(9.2).epsilon(1e-6));
  CHECK(result.mean == doctest::Approx(9.2).epsilon(1e-6));
  CHECK(model.parameter.shard.grad().item().toDouble() == doctest::Approx(9.2).epsilon(1e-6));
}

TEST_CASE("A rank's share is divided by the labels of all ranks, its mean by its own") {
  TwoLosses model;
  const std::vector<Batch> one = {batch_of(9)}, other = {batch_of(1, 3)};
  const RankLoss first = accumulate_gradients(one, model.loss(), 10, nullptr);
  const RankLoss second = accumulate_gradients(other, model.loss(), 10, nullptr);
  CHECK(first.share + second.share == doctest::Approx(9.2).epsilon(1e-6));
  CHECK(first.mean == doctest::Approx(10.0).epsilon(1e-6));
  CHECK(second.mean == doctest::Approx(2.0).epsilon(1e-6));
}

TEST_CASE("Sharded replicas sum the gradients of all micro-batches once") {
  tests::run_ranks(2, [](Group& replicas) {
    tests::ThreadGroup alone(std::make_shared<tests::Meeting>(1), {replicas.index()}, 0);
    OneWeight model;
    shard_parameters(model, 1, 0);
    materialize(model, at::kFloat, tests::test_device(), 1);
    FullyShardedModel sharded({{"model", {&model}, {&model.stage}}}, alone, replicas, {});
    const LossFunction loss = [&](const Batch& batch, double normalizer) {
      const double sum = batch.valid_tokens() == 1 ? 2.0 : 90.0;
      return model.stage.run([&] { return at::sum(at::mul(model.weight.value, sum / normalizer)); });
    };
    const std::vector<Batch> micro_batches = {batch_of(1, 3), batch_of(9)};
    accumulate_gradients(micro_batches, loss, 20, &sharded);
    CHECK(replicas.counters().all_reduces == 1);
    CHECK(model.weight.shard.grad().item().toDouble() == doctest::Approx(9.2).epsilon(1e-6));
  });
}

TEST_CASE("A rank whose rows are all padding has no mean and takes part with a zero") {
  TwoLosses model;
  const std::vector<Batch> padding = {batch_of(0, 4)};
  const LossFunction zero = [&](const Batch&, double) {
    return at::sum(at::mul(model.parameter.shard, 0.0));
  };
  const RankLoss result = accumulate_gradients(padding, zero, 10, nullptr);
  CHECK(result.share == 0.0);
  CHECK(result.mean == 0.0);
}

TEST_CASE("Clipping divides by norm + 1e-6 and never enlarges") {
  CHECK(clip_factor(2.0, 1.0) == doctest::Approx(1.0 / 2.000001).epsilon(1e-12));
  CHECK(clip_factor(0.5, 1.0) == 1.0);
  CHECK(clip_factor(0.0, 1.0) == 1.0);
}

TEST_CASE("The update feeds the clipped gradient to the moments and drops the gradient") {
  TwoLosses model;
  Optimizer optimizer = optimizer_for(model);
  model.parameter.shard.mutable_grad() = at::full({1}, 9.2, at::kFloat);
  update(optimizer, {.avg_loss = 9.2, .grad_norm = 9.2}, 1.0, 1.0, 1);
  const double clipped = 9.2 * (1.0 / (9.2 + 1e-6));
  CHECK(optimizer.groups()[0].exp_avgs[0].item().toDouble() == doctest::Approx(0.1 * clipped).epsilon(1e-6));
  CHECK_FALSE(model.parameter.shard.grad().defined());
}

TEST_CASE("A gradient that is not finite stops before the update: weights and moments stay as they were") {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    TwoLosses model;
    Optimizer optimizer = optimizer_for(model);
    model.parameter.shard.mutable_grad() = at::full({1}, bad, at::kFloat);
    CHECK_THROWS_WITH_AS(update(optimizer, {.avg_loss = 3.0, .grad_norm = bad}, 1.0, 1.0, 7),
                         doctest::Contains(" at step 7. Stopping training."), CommonError);
    CHECK(model.parameter.shard.item().toDouble() == 1.0);
    CHECK(optimizer.groups()[0].exp_avgs[0].item().toDouble() == 0.0);
    CHECK(optimizer.groups()[0].exp_avg_sqs[0].item().toDouble() == 0.0);
  }
}

TEST_CASE("A loss that is not finite stops with the reference's words, whatever the gradient is") {
  TwoLosses model;
  Optimizer optimizer = optimizer_for(model);
  model.parameter.shard.mutable_grad() = at::full({1}, 1.0, at::kFloat);
  CHECK_THROWS_WITH_AS(
      update(optimizer, {.avg_loss = std::numeric_limits<double>::quiet_NaN(), .grad_norm = 1.0}, 1.0, 1.0,
             3),
      doctest::Contains("Loss is not finite (global_avg_loss=nan) at step 3. Stopping training."),
      CommonError);
  CHECK(model.parameter.shard.item().toDouble() == 1.0);
}

TEST_CASE("Each element of the model's gradient is counted by exactly one rank") {
  Parameter cut{.shape = {2}, .init = {}, .tp = {.dim = 0}, .shard = at::full({1}, 0.0, at::kFloat)};
  Parameter copy{
      .shape = {1}, .init = {}, .tp = {.partial_gradient = true}, .shard = at::full({1}, 0.0, at::kFloat)};
  cut.shard.set_requires_grad(true);
  copy.shard.set_requires_grad(true);
  cut.shard.mutable_grad() = at::full({1}, 3.0, at::kFloat);
  copy.shard.mutable_grad() = at::full({1}, 4.0, at::kFloat);
  const ParallelDims dims{.dp_replicate = 2, .dp_shard = 1, .tp = 2, .world_size = 4};
  std::vector<double> counted;
  for (int64_t rank = 0; rank < 4; ++rank) {
    counted.push_back(counted_squared_norm({{"cut", &cut}, {"copy", &copy}}, Mesh(dims, rank)));
  }
  CHECK(counted == std::vector<double>{25.0, 9.0, 0.0, 0.0});
}

}  // namespace titan
