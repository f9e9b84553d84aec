#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "tests/unit/distributed/fsdp_subjects.h"

// What fully sharded training computes: losses and gradients of the unsharded model.

using namespace titan;
using tests::Outcome;
using tests::RunOptions;

namespace {

constexpr double kLossBound = 1e-6;                         // relative; sums in another order
constexpr std::array kGradientBounds = {1e-5, 1e-5, 1e-5};  // of the gradient's norm, for each step

void check_same_training(const Outcome& outcome, const Outcome& expected, double loss_bound = kLossBound,
                         const std::array<double, 3>& gradient_bounds = kGradientBounds) {
  CHECK(expected.losses.back() < 0.999 * expected.losses.front());  // the steps do something
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(outcome.losses[step] / expected.losses[step] - 1) <= loss_bound);
    for (size_t i = 0; i < expected.gradients[step].size(); ++i) {
      CAPTURE(i);
      const at::Tensor &gradient = outcome.gradients[step][i], &reference = expected.gradients[step][i];
      CHECK((gradient - reference).norm().item<double>() <=
            gradient_bounds[step] * reference.norm().item<double>());
    }
  }
}

void check_same_bits(const Outcome& a, const Outcome& b) {
  CHECK(a.losses == b.losses);
  for (size_t step = 0; step < a.gradients.size(); ++step) {
    for (size_t i = 0; i < a.gradients[step].size(); ++i) {
      CHECK(a.gradients[step][i].equal(b.gradients[step][i]));
    }
  }
}

}  // namespace

TEST_CASE("weights sharded over any number of ranks train like whole ones") {
  for (const auto& subject : {tests::chain(), tests::small_qwen3(), tests::small_qwen3({.tied = true})}) {
    const Outcome alone = tests::train_alone(subject);
    for (const int64_t shards : {1, 2, 3, 4, 5}) {
      CAPTURE(shards);
      check_same_training(tests::train(subject, {.shards = shards}), alone);
    }
  }
}

TEST_CASE("every way to reshard and to prefetch trains alike, bit for bit") {
  const auto subject = tests::small_qwen3({.tied = true, .vocab_size = 97});
  const Outcome expected = tests::train(subject, {.shards = 3});
  check_same_bits(tests::train(subject, {.shards = 3}), expected);
  for (const FsdpOptions& options :
       {FsdpOptions{.reshard_last_after_forward = true}, FsdpOptions{.reshard_after_forward = false},
        FsdpOptions{.prefetch = false}, FsdpOptions{.reshard_last_after_forward = true, .prefetch = false}}) {
    check_same_bits(tests::train(subject, {.shards = 3, .options = options}), expected);
  }
}

TEST_CASE("what a pass needs of a collective it waits for") {
  for (const bool tied : {false, true}) {
    const auto subject = tests::small_qwen3({.tied = tied, .vocab_size = 97});
    for (const FsdpOptions& options : {FsdpOptions{}, FsdpOptions{.prefetch = false},
                                       FsdpOptions{.reshard_after_forward = false, .defer_reduce = true}}) {
      RunOptions run{.shards = 2, .replicas = 2, .accumulation = 2, .options = options};
      const Outcome expected = tests::train(subject, run);
      run.late = true;
      check_same_bits(tests::train(subject, run), expected);
    }
  }
}

TEST_CASE("replicas sum their gradients once a step") {
  for (const auto& subject : {tests::chain(), tests::small_qwen3({.vocab_size = 97})}) {
    const Outcome alone = tests::train_alone(subject);
    for (const int64_t shards : {1, 2}) {
      for (const int64_t accumulation : {1, 3}) {
        CAPTURE(shards);
        CAPTURE(accumulation);
        check_same_training(
            tests::train(subject, {.shards = shards, .replicas = 2, .accumulation = accumulation}), alone);
      }
    }
  }
}

TEST_CASE("gradients accumulate over micro-batches, reduced each time or once") {
  for (const auto& subject : {tests::chain(), tests::small_qwen3({.vocab_size = 97}),
                              tests::small_qwen3({.tied = true, .vocab_size = 97})}) {
    const Outcome alone = tests::train_alone(subject);
    for (const bool defer : {false, true}) {
      for (const int64_t replicas : {1, 2}) {
        CAPTURE(defer);
        CAPTURE(replicas);
        check_same_training(
            tests::train(
                subject,
                {.shards = 2, .replicas = replicas, .accumulation = 3, .options = {.defer_reduce = defer}}),
            alone);
      }
    }
  }
}

TEST_CASE("activation checkpointing runs its nested backward passes inside the sharded model") {
  for (const bool tied : {false, true}) {
    const Outcome expected =
        tests::train(tests::small_qwen3({.tied = tied, .vocab_size = 97}), {.shards = 3});
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
      const auto subject = tests::small_qwen3({.tied = tied, .vocab_size = 97, .recompute = recompute});
      check_same_bits(tests::train(subject, {.shards = 3}), expected);
    }
  }
}

TEST_CASE("frozen weights are gathered but get no gradient") {
  const std::vector<std::string> embedding = {"tok_embeddings"}, layer = {"layers.1."},
                                 parts = {"norm", "wq", "w2"},
                                 front = {"tok_embeddings", "layers.0.", "lm_head"};
  for (const auto& frozen : {embedding, layer, parts, front}) {
    for (const bool reshard : {true, false}) {
      const auto subject = tests::small_qwen3({.vocab_size = 97, .frozen = frozen});
      check_same_training(tests::train(subject, {.shards = 2, .options = {.reshard_after_forward = reshard}}),
                          tests::train_alone(subject));
    }
  }
}

TEST_CASE("a weight that some ranks or micro-batches do not use counts as zero there") {
  // Rows 0 to 3 use the side branch: with 5 ranks the last one never does, with 3 micro-batches the first
  // does.
  const Outcome alone = tests::train_alone(tests::chain());
  for (const bool defer : {false, true}) {
    for (const int64_t shards : {2, 5}) {
      CAPTURE(defer);
      CAPTURE(shards);
      check_same_training(
          tests::train(tests::chain(),
                       {.shards = shards, .accumulation = 3, .options = {.defer_reduce = defer}}),
          alone);
    }
  }
}

TEST_CASE("a forward pass without gradients between steps changes nothing") {
  for (const bool reshard : {true, false}) {
    const RunOptions layout{.shards = 3, .options = {.reshard_after_forward = reshard}};
    RunOptions with_validation = layout;
    with_validation.validate = true;
    const auto subject = tests::small_qwen3({.tied = true, .vocab_size = 97});
    check_same_bits(tests::train(subject, with_validation), tests::train(subject, layout));
  }
}

TEST_CASE("bfloat16 weights on the wire train float32 shards") {
  // The reference rounds each weight where it is used, but not its gradients: each of the ranks' is rounded
  // here, by 2^-9 of an element at most. From the second step on the difference goes through bfloat16
  // arithmetic.
  const tests::SmallQwen3::Options options{.vocab_size = 97, .compute = at::kBFloat16};
  const Outcome alone = tests::train_alone(tests::small_qwen3(options));
  for (const int64_t accumulation : {1, 3}) {
    for (const bool defer : {false, true}) {
      const FsdpOptions fsdp{.param_dtype = at::kBFloat16, .defer_reduce = defer};
      const Outcome outcome = tests::train(tests::small_qwen3(options),
                                           {.shards = 2, .accumulation = accumulation, .options = fsdp});
      check_same_training(outcome, alone, 2e-3, {1.0 / 256, 5e-2, 5e-2});
    }
  }
}
