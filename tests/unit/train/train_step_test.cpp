#include "titan/train/train_step.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

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

Optimizer optimizer_for(const TwoLosses& model) {
  OptimizerConfig config = default_adamw(0.1);
  return Optimizer(config, model.parameters);
}

}  // namespace

TEST_CASE("Every token weighs the same: lengths 1 and 9 with losses 2 and 90 give 9.2, not 6.0") {
  TwoLosses model;
  const std::vector<Batch> micro_batches = {batch_of(1, 3), batch_of(9)};
  const StepLoss result = accumulate_gradients(micro_batches, model.loss());
  CHECK(result.valid_tokens == 10);
  CHECK(result.avg_loss == doctest::Approx(9.2).epsilon(1e-6));
  CHECK(model.parameter.shard.grad().item().toDouble() == doctest::Approx(9.2).epsilon(1e-6));
}

TEST_CASE("One micro-batch of two rows and two of one row give the same loss") {
  TwoLosses model;
  const std::vector<Batch> swapped = {batch_of(9), batch_of(1, 3)};
  CHECK(accumulate_gradients(swapped, model.loss()).avg_loss == doctest::Approx(9.2).epsilon(1e-6));
}

TEST_CASE("A step without a label that counts is an error, not a division by zero") {
  TwoLosses model;
  const std::vector<Batch> micro_batches = {batch_of(0, 4), batch_of(0, 4)};
  CHECK_THROWS_WITH_AS(accumulate_gradients(micro_batches, model.loss()),
                       doctest::Contains("2 micro-batches"), ValueError);
}

TEST_CASE("Clipping divides by norm + 1e-6 and never enlarges") {
  CHECK(clip_factor(2.0, 1.0) == doctest::Approx(1.0 / 2.000001).epsilon(1e-12));
  CHECK(clip_factor(0.5, 1.0) == 1.0);
  CHECK(clip_factor(0.0, 1.0) == 1.0);
}

TEST_CASE("The update returns the norm before clipping and feeds the clipped gradient to the moments") {
  TwoLosses model;
  Optimizer optimizer = optimizer_for(model);
  const std::vector<Batch> micro_batches = {batch_of(1), batch_of(9)};
  const StepLoss loss = accumulate_gradients(micro_batches, model.loss());
  CHECK(update(optimizer, loss.avg_loss, 1.0, 1.0, 1) == doctest::Approx(9.2).epsilon(1e-6));
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
    CHECK_THROWS_WITH_AS(update(optimizer, 3.0, 1.0, 1.0, 7),
                         doctest::Contains(" at step 7. Stopping training."), ValueError);
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
      update(optimizer, std::numeric_limits<double>::quiet_NaN(), 1.0, 1.0, 3),
      doctest::Contains("Loss is not finite (global_avg_loss=nan) at step 3. Stopping training."),
      ValueError);
  CHECK(model.parameter.shard.item().toDouble() == 1.0);
}

}  // namespace titan
