#include "titan/train/validate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include <chrono>
#include <deque>

#include "titan/base/error.h"

namespace titan {
namespace {

Batch labelled_batch(int64_t valid, int64_t ignored) {
  Batch batch;
  batch.rows = 1;
  batch.seq_len = valid + ignored;
  batch.labels.assign(static_cast<size_t>(valid), 1);
  batch.labels.resize(static_cast<size_t>(batch.seq_len), kIgnoredLabel);
  return batch;
}

/// Gives the batches in turn, then nothing; one process alone.
ValidationResult validate_alone(std::deque<Batch> batches, const LossFunction& loss, int64_t max_batches) {
  World world(Launch{}, ParallelDims{}, std::chrono::seconds(1));
  const auto next = [batches]() mutable -> std::optional<Batch> {
    if (batches.empty()) return std::nullopt;
    Batch first = batches.front();
    batches.pop_front();
    return first;
  };
  return validate({.next = next, .padding = [] { return labelled_batch(0, 4); }}, loss, max_batches, world);
}

/// A batch with one valid token has a summed loss of 2, any other of 90.
at::Tensor two_or_ninety(const Batch& batch, double normalizer) {
  CHECK_FALSE(at::GradMode::is_enabled());
  return at::full({}, (batch.valid_tokens() == 1 ? 2.0 : 90.0) / normalizer, at::kFloat);
}

}  // namespace

TEST_CASE("The validation loss is a mean over tokens, not of batches' means") {
  const auto result = validate_alone({labelled_batch(1, 3), labelled_batch(9, 0)}, two_or_ninety, -1);
  CHECK(result.loss == doctest::Approx(9.2).epsilon(1e-6));
  CHECK(result.valid_tokens == 10);
  CHECK(result.num_tokens == 13);
}

TEST_CASE(
    "Validation takes at most the number of batches it is given, and batches of padding count nothing") {
  const auto result =
      validate_alone({labelled_batch(0, 4), labelled_batch(1, 0), labelled_batch(9, 0)}, two_or_ninety, 2);
  CHECK(result.loss == doctest::Approx(2.0));
  CHECK(result.valid_tokens == 1);
}

TEST_CASE("A validation set without a token to predict is an error") {
  CHECK_THROWS_WITH_AS(validate_alone({labelled_batch(0, 4)}, two_or_ninety, -1),
                       doctest::Contains("validator.dataloader"), ValueError);
}

}  // namespace titan
