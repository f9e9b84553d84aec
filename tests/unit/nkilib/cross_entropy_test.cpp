#include "titan/nkilib/cross_entropy/cross_entropy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/nkilib/arrays.h"
#include "titan/base/error.h"
#include "titan/nki/error.h"

namespace titan::nkilib {
namespace {

using doctest::Contains;
using nki::Dtype;
using nki::KernelError;
using nki::Tensor;
using testing::Array;
using testing::rounded;
using testing::values_of;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

struct Sizes {
  int64_t positions, vocabulary, positions_per_batch, chunk_size;
};

// Public vocabularies: whole, cut evenly and unevenly, and one by the default sizes; odd ones with chunks
// down to a column, batches that the last rows do not fill, and fewer rows than cores.
const Sizes kSizes[] = {{5, 32128, 4, 32128}, {5, 32128, 4, 8032},   {3, 32128, 128, 5000},
                        {9, 37, 4, 8},        {7, 37, 7, 1},         {131, 129, 128, 64},
                        {1, 3, 32, 3},        {2, 151936, 32, 32768}};

/// In double, of the logits that the kernel is given.
struct Reference {
  Doubles loss, lse, probabilities;
};

Reference reference_of(const Floats& logits, const Floats& targets) {
  Reference reference;
  const size_t vocabulary = logits.size() / targets.size();
  for (size_t p = 0; p < targets.size(); ++p) {
    const float* row = logits.data() + p * vocabulary;
    const double max = *std::max_element(row, row + vocabulary);
    double sum = 0;
    for (size_t v = 0; v < vocabulary; ++v) sum += std::exp(double{row[v]} - max);
    const double lse = max + std::log(sum);
    reference.lse.push_back(lse);
    reference.loss.push_back(lse - double{row[static_cast<size_t>(targets[p])]});
    for (size_t v = 0; v < vocabulary; ++v) {
      reference.probabilities.push_back(std::exp(double{row[v]} - lse));
    }
  }
  return reference;
}

/// Logits, in -8 .. 8, and targets that the first and the last column are among.
struct Problem {
  Problem(const Sizes& of, Dtype dtype, uint32_t seed = 1)
      : sizes(of),
        logits({of.positions, of.vocabulary}, dtype, testing::draw(of.positions * of.vocabulary, seed, 8)),
        targets({of.positions}, Dtype::int32, draw_targets(of)) {}

  static Floats draw_targets(const Sizes& of) {
    Floats drawn;
    for (int64_t p = 0; p < of.positions; ++p) {
      const int64_t choices[] = {of.vocabulary - 1, 0, p * 7919 % of.vocabulary};
      drawn.push_back(static_cast<float>(choices[p % 3]));
    }
    return drawn;
  }
  CrossEntropyOptions options(std::optional<Dtype> dtype = {}) const {
    return {.positions_per_batch = sizes.positions_per_batch, .chunk_size = sizes.chunk_size, .dtype = dtype};
  }
  std::tuple<Tensor, Tensor> forward(int64_t lnc, std::optional<Dtype> dtype = {}) {
    return nki::simulate(cross_entropy_forward)[lnc](logits.tensor("logits"), targets.tensor("targets"),
                                                     options(dtype));
  }
  Tensor backward(int64_t lnc, const Tensor& lse, LossReduction reduction, bool inplace) {
    return nki::simulate(cross_entropy_backward)[lnc](logits.tensor("logits"), targets.tensor("targets"), lse,
                                                      {.reduction = reduction,
                                                       .positions_per_batch = sizes.positions_per_batch,
                                                       .chunk_size = sizes.chunk_size,
                                                       .inplace = inplace});
  }

  Sizes sizes;
  Array logits, targets;
};

/// The largest |got - expected| / (relative |expected| + absolute).
double excess(const Floats& got, const Doubles& expected, double relative, double absolute) {
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(double{got[i]} - expected[i]);
    if (std::isnan(off)) return std::numeric_limits<double>::infinity();
    most = std::max(most, off / (relative * std::abs(expected[i]) + absolute));
  }
  return most;
}

// Sums of 2,048 positive numbers in float32, one after another, are off by 2048 * 2^-25 of themselves at most
// if all roundings fall one way, and by a tenth of that as they fall; an lse of 16 is rounded to 2^-21. The
// public tests allow as much again for each 1 of lse.
constexpr double kFloat32 = 1e-5;
// bfloat16 results are rounded once, from float32.
constexpr double kBfloat16 = 0x1p-8;

TEST_CASE("cross_entropy_forward gives the reference's loss and lse") {
  for (const Sizes& sizes : kSizes)
    for (const int64_t lnc : {1, 2})
      for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
        CAPTURE(sizes.vocabulary);
        CAPTURE(sizes.chunk_size);
        CAPTURE(lnc);
        Problem problem(sizes, dtype);
        const Reference expected = reference_of(problem.logits.values(), problem.targets.values());
        const auto [loss, lse] = problem.forward(lnc);
        CHECK(loss.dtype() == dtype);
        const double relative = dtype == Dtype::bfloat16 ? kBfloat16 : 0;
        CHECK(excess(values_of(loss), expected.loss, relative, kFloat32) <= 1);
        CHECK(excess(values_of(lse), expected.lse, relative, kFloat32) <= 1);
        const auto [exact_loss, exact_lse] = problem.forward(lnc, Dtype::float32);
        CHECK(exact_lse.dtype() == Dtype::float32);
        CHECK(excess(values_of(exact_loss), expected.loss, 0, kFloat32) <= 1);
        CHECK(excess(values_of(exact_lse), expected.lse, 0, kFloat32) <= 1);
      }
}

TEST_CASE("cross_entropy_backward gives the reference's gradient, over the logits or beside them") {
  for (const Sizes& sizes : kSizes)
    for (const int64_t lnc : {1, 2})
      for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16})
        for (const bool inplace : {true, false}) {
          CAPTURE(sizes.vocabulary);
          CAPTURE(sizes.chunk_size);
          CAPTURE(lnc);
          CAPTURE(inplace);
          Problem problem(sizes, dtype);
          const Floats logits = problem.logits.values(), targets = problem.targets.values();
          Doubles expected = reference_of(logits, targets).probabilities;
          const LossReduction reduction = inplace ? LossReduction::mean : LossReduction::sum;
          for (size_t p = 0; p < targets.size(); ++p) {
            expected[p * static_cast<size_t>(sizes.vocabulary) + static_cast<size_t>(targets[p])] -= 1;
          }
          const double scale = inplace ? 1 / static_cast<double>(sizes.positions) : 1;
          for (double& value : expected) value *= scale;
          const Tensor lse = std::get<1>(problem.forward(lnc, Dtype::float32));
          const Tensor gradient = problem.backward(lnc, lse, reduction, inplace);
          const double rounding = dtype == Dtype::bfloat16 ? kBfloat16 : 0;
          // p - 1 is off by p's roundings, whatever is left of it: those of an lse of 16, 2^-21, and exp's.
          CHECK(excess(values_of(gradient), expected, rounding + kFloat32, 1e-6 * scale) <= 1);
          CHECK((problem.logits.values() == logits) == !inplace);
          CHECK((gradient.allocation()->data == problem.logits.tensor().allocation()->data) == inplace);
          CHECK(problem.logits.guards_are_whole());
        }
}

TEST_CASE("cross_entropy in bfloat16 with a bfloat16 lse stays within the public bound") {
  Problem problem({9, 1000, 4, 300}, Dtype::bfloat16);
  const Floats targets = problem.targets.values();
  Doubles expected = reference_of(problem.logits.values(), targets).probabilities;
  for (size_t p = 0; p < targets.size(); ++p) expected[p * 1000 + static_cast<size_t>(targets[p])] -= 1;
  const Tensor lse = std::get<1>(problem.forward(2));
  CHECK(lse.dtype() == Dtype::bfloat16);
  // lse is at most 16, and 2^-8 of it moves a probability by e^(2^-4) - 1 of itself.
  CHECK(excess(values_of(problem.backward(2, lse, LossReduction::sum, true)), expected, 0.065, 1e-2) <= 1);
}

TEST_CASE("cross_entropy's cores and batches change no bit") {
  Floats loss, lse, gradient;
  for (const int64_t lnc : {1, 2})
    for (const int64_t positions_per_batch : {1, 4, 128}) {
      Problem problem({9, 37, positions_per_batch, 8}, Dtype::float32);
      const auto [loss_P, lse_P] = problem.forward(lnc);
      const Floats backward = values_of(problem.backward(lnc, lse_P, LossReduction::mean, true));
      if (loss.empty()) {
        loss = values_of(loss_P);
        lse = values_of(lse_P);
        gradient = backward;
      }
      CHECK(loss == values_of(loss_P));
      CHECK(lse == values_of(lse_P));
      CHECK(gradient == backward);
    }
}

TEST_CASE("cross_entropy's cores share the rows") {
  Problem problem({10, 37, 1, 37}, Dtype::float32);
  const auto [loss, lse] = problem.forward(1);
  const auto counts = [&](int64_t lnc, bool backward) {
    nki::KernelRun run;
    const Tensor logits = problem.logits.tensor(), targets = problem.targets.tensor();
    if (backward) {
      const CrossEntropyBackwardOptions options = {
          .positions_per_batch = 1, .chunk_size = 37, .inplace = false};
      nki::simulate(cross_entropy_backward)[lnc].run(&run, logits, targets, lse, options);
    } else {
      nki::simulate(cross_entropy_forward)[lnc].run(&run, logits, targets, problem.options());
    }
    std::vector<int64_t> instructions;
    for (const nki::CoreRecord& core : run.cores) instructions.push_back(core.num_instructions);
    return instructions;
  };
  for (const bool backward : {false, true}) {
    const int64_t alone = counts(1, backward)[0];
    for (const int64_t shared : counts(2, backward)) CHECK(shared * 10 < alone * 6);
  }
}

TEST_CASE("cross_entropy_backward agrees with finite differences of the forward") {
  const Sizes sizes = {3, 7, 2, 3};
  Problem problem(sizes, Dtype::float32);
  const Floats logits = problem.logits.values();
  const Tensor lse = std::get<1>(problem.forward(1));
  const Floats gradient = values_of(problem.backward(1, lse, LossReduction::mean, false));
  const auto loss_at = [&](size_t i, float step) {
    Floats moved = logits;
    moved[i] += step;
    problem.logits = Array({sizes.positions, sizes.vocabulary}, Dtype::float32, moved);
    double mean = 0;
    for (const float loss : values_of(std::get<0>(problem.forward(1)))) mean += double{loss};
    return mean / static_cast<double>(sizes.positions);
  };
  // Of a step of 2^-6 the cubic term is below 2^-12 / 6, and losses below 16 are off by 2^-20 or so.
  constexpr float kStep = 0x1p-6F;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double slope = (loss_at(i, kStep) - loss_at(i, -kStep)) / (2 * double{kStep});
    CHECK(std::abs(slope - double{gradient[i]}) < 2e-4);
  }
}

TEST_CASE("cross_entropy takes logits that are -infinity, a whole chunk of them too") {
  const Sizes sizes = {3, 37, 2, 8};
  Problem problem(sizes, Dtype::float32);
  Floats logits = problem.logits.values();
  for (size_t i = 0; i < logits.size(); ++i)
    if (i % 37 < 9) logits[i] = -std::numeric_limits<float>::infinity();
  problem.logits = Array({3, 37}, Dtype::float32, logits);
  problem.targets = Array({3}, Dtype::int32, {9, 36, 20});
  const Reference expected = reference_of(logits, problem.targets.values());
  const auto [loss, lse] = problem.forward(1);
  CHECK(excess(values_of(loss), expected.loss, 0, kFloat32) <= 1);
  const Floats gradient = values_of(problem.backward(1, lse, LossReduction::sum, true));
  for (size_t i = 0; i < gradient.size(); ++i) {
    if (i % 37 < 9) CHECK(gradient[i] == 0);
    CHECK_FALSE(std::isnan(gradient[i]));
  }
}

TEST_CASE("cross_entropy stops at a target outside of the vocabulary, forward and backward") {
  for (const float target : {-1.0F, -100.0F, 37.0F}) {
    Problem problem({3, 37, 2, 8}, Dtype::float32);
    const auto [loss, lse] = problem.forward(1);
    problem.targets = Array({3}, Dtype::int32, {0, 36, target});
    CHECK_THROWS_WITH_AS(problem.forward(1), Contains("logits"), KernelError);
    for (const bool inplace : {false, true})
      CHECK_THROWS_WITH_AS(problem.backward(1, lse, LossReduction::sum, inplace), Contains("logits"),
                           KernelError);
  }
}

TEST_CASE("cross_entropy refuses what breaks its contract, by name") {
  const auto run = [](std::vector<int64_t> shape, Dtype dtype, Sizes sizes,
                      Dtype target_dtype = Dtype::int32) {
    Array logits(std::move(shape), dtype), targets({sizes.positions}, target_dtype);
    nki::simulate(cross_entropy_forward)[1](
        logits.tensor(), targets.tensor(),
        {.positions_per_batch = sizes.positions_per_batch, .chunk_size = sizes.chunk_size});
  };
  const auto f32 = Dtype::float32;
  CHECK_THROWS_WITH_AS(run({2, 3, 4}, f32, {2, 4, 1, 4}), Contains("logits have to be [positions"),
                       ValueError);
  CHECK_THROWS_WITH_AS(run({2, 4}, Dtype::float16, {2, 4, 1, 4}), Contains("got float16"), ValueError);
  CHECK_THROWS_WITH_AS(run({2, 4}, f32, {3, 4, 1, 4}), Contains("targets has to be [2]"), ValueError);
  CHECK_THROWS_WITH_AS(run({2, 4}, f32, {2, 4, 1, 4}, f32), Contains("targets have to be int32"), ValueError);
  CHECK_THROWS_WITH_AS(run({2, 4}, f32, {2, 4, 0, 4}), Contains("positions_per_batch has to be 1 to 128"),
                       ValueError);
  CHECK_THROWS_WITH_AS(run({2, 4}, f32, {2, 4, 129, 4}), Contains("got 129"), ValueError);
  CHECK_THROWS_WITH_AS(run({2, 4}, f32, {2, 4, 1, 5}),
                       Contains("chunk_size has to be 1 to the vocabulary's 4"), ValueError);
  CHECK_THROWS_WITH_AS(run({2, 4}, f32, {2, 4, 1, 0}), Contains("got 0"), ValueError);
  CHECK_THROWS_WITH_AS(run({1, 50000}, f32, {1, 4, 1, 40961}), Contains("at most 40960 for float32"),
                       ValueError);
  CHECK_THROWS_WITH_AS(run({1, 70000}, Dtype::bfloat16, {1, 4, 1, 65536}), Contains("at most 65535"),
                       ValueError);
}

TEST_CASE("cross_entropy refuses results and lse of another dtype or size, and logits with gaps") {
  Problem problem({3, 37, 2, 8}, Dtype::float32);
  CHECK_THROWS_WITH_AS(problem.forward(1, Dtype::float16), Contains("got dtype float16"), ValueError);
  Array longer({4}, Dtype::float32), half({3}, Dtype::float16);
  CHECK_THROWS_WITH_AS(problem.backward(1, longer.tensor(), LossReduction::sum, true),
                       Contains("lse has to be [3]"), ValueError);
  CHECK_THROWS_WITH_AS(problem.backward(1, half.tensor(), LossReduction::sum, true), Contains("got float16"),
                       ValueError);
  const Tensor part = problem.logits.tensor()(nki::all, nki::ds(0, 20));
  CHECK_THROWS_WITH_AS(
      nki::simulate(cross_entropy_forward)[1](part, problem.targets.tensor(), {.chunk_size = 20}),
      Contains("gaps"), ValueError);
}

TEST_CASE("cross_entropy's largest chunks fit into SBUF, forward and backward") {
  struct Chunk {
    Dtype dtype;
    int64_t size;
  };
  for (const Chunk& chunk : {Chunk{Dtype::float32, 40960}, Chunk{Dtype::bfloat16, 65535}}) {
    Problem problem({2, chunk.size + 1, 128, chunk.size}, chunk.dtype);
    const auto [loss, lse] = problem.forward(1);
    CHECK_NOTHROW(problem.backward(1, lse, LossReduction::mean, true));
  }
}

}  // namespace
}  // namespace titan::nkilib
