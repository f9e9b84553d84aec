#include "titan/nkilib/attention/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/nkilib/arrays.h"
#include "tests/unit/nkilib/attention_reference.h"
#include "titan/base/error.h"

namespace titan::nkilib {
namespace {

using doctest::Contains;
using nki::Dtype;
using nki::Tensor;
using testing::AttentionAnswer;
using testing::AttentionProblem;
using testing::AttentionSizes;
using testing::values_of;
using Array = testing::Array;
using Floats = std::vector<float>;

// Groups of 4, 1 and 2 heads; a tile of keys and less; several, the last one partial.
const AttentionSizes kSizes[] = {{1, 128, 8, 2, 64}, {2, 256, 4, 4, 128}, {1, 256, 16, 8, 64},
                                 {1, 512, 8, 2, 64}, {2, 640, 2, 1, 40},  {1, 1152, 3, 1, 32}};

/// Numbers that bfloat16 holds, so that one answer is right for both dtypes.
Floats draw_bfloat16(int64_t count, uint32_t seed, float scale) {
  Floats drawn = testing::draw(count, seed, scale);
  for (float& value : drawn) value = testing::rounded(value, Dtype::bfloat16);
  return drawn;
}

AttentionProblem make_problem(const AttentionSizes& sizes, uint32_t seed = 1) {
  return {.sizes = sizes,
          .q = draw_bfloat16(sizes.q_count(), seed, 3),
          .k = draw_bfloat16(sizes.k_count(), seed + 1, 3),
          .v = draw_bfloat16(sizes.k_count(), seed + 2, 1),
          .dout = draw_bfloat16(sizes.q_count(), seed + 3, 1),
          .scale = 1 / std::sqrt(static_cast<double>(sizes.head_dim))};
}

/// A problem's tensors as kernels see them.
class Attention {
 public:
  Attention(const AttentionProblem& problem, Dtype dtype)
      : q_(q_shape(problem.sizes), dtype, problem.q),
        k_(k_shape(problem.sizes), dtype, problem.k),
        v_(k_shape(problem.sizes), dtype, problem.v),
        dout_(q_shape(problem.sizes), dtype, problem.dout),
        first_key_({problem.sizes.batch, problem.sizes.length}, Dtype::int32, first_keys(problem)) {
    options_ = {.scale = problem.scale, .causal = problem.causal};
    if (!problem.first_key.empty()) options_.first_key = first_key_.tensor("first_key");
  }

  static std::vector<int64_t> q_shape(const AttentionSizes& of) {
    return {of.batch, of.length, of.q_heads, of.head_dim};
  }
  static std::vector<int64_t> k_shape(const AttentionSizes& of) {
    return {of.batch, of.length, of.k_heads, of.head_dim};
  }
  static Floats first_keys(const AttentionProblem& problem) {
    Floats keys(problem.first_key.begin(), problem.first_key.end());
    keys.resize(static_cast<size_t>(problem.sizes.batch * problem.sizes.length));
    return keys;
  }
  AttentionOptions& options() { return options_; }

  std::tuple<Tensor, Tensor> forward(int64_t lnc) {
    return nki::simulate(attention_forward)[lnc](q_.tensor("q"), k_.tensor("k"), v_.tensor("v"), options_);
  }
  std::tuple<Tensor, Tensor, Tensor> backward(int64_t lnc, const Tensor& out, const Tensor& lse) {
    return nki::simulate(attention_backward)[lnc](q_.tensor("q"), k_.tensor("k"), v_.tensor("v"),
                                                  {out, lse, dout_.tensor("dout")}, options_);
  }
  /// out, lse, dq, dk, dv
  std::vector<Floats> results(int64_t lnc) {
    const auto [out, lse] = forward(lnc);
    const auto [dq, dk, dv] = backward(lnc, out, lse);
    return {values_of(out), values_of(lse), values_of(dq), values_of(dk), values_of(dv)};
  }

 private:
  Array q_, k_, v_, dout_, first_key_;
  AttentionOptions options_;
};

/// The largest |got - expected| over the largest |expected|.
double difference(const Floats& got, const std::vector<double>& expected) {
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double off = 0, largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i])) return std::numeric_limits<double>::infinity();
    off = std::max(off, std::abs(double{got[i]} - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return off / largest;
}

// Relative to the largest number. float32: scores of 30 and less are rounded to 2^-20, which moves
// probabilities by as much, and sums of 512 products add some roundings of 2^-24 more. bfloat16:
// probabilities and results are rounded to 2^-8, and for gradients out and the scores' gradients too; the
// public tests' 2e-2.
constexpr double kFloat32 = 5e-6, kBfloat16Out = 0x1p-7, kBfloat16Gradient = 2e-2;

/// float32 on one core and bfloat16 on two; that cores make no difference has a test of its own.
void check_problem(const AttentionProblem& problem) {
  CAPTURE(problem.sizes.length);
  CAPTURE(problem.sizes.q_heads);
  CAPTURE(problem.causal);
  const AttentionAnswer answer = testing::answer_of(problem);
  const std::vector<double>* const expected[] = {&answer.out, &answer.lse, &answer.dq, &answer.dk,
                                                 &answer.dv};
  const std::vector<Floats> float32 = Attention(problem, Dtype::float32).results(1);
  const std::vector<Floats> bfloat16 = Attention(problem, Dtype::bfloat16).results(2);
  for (size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    CHECK(difference(float32[i], *expected[i]) < kFloat32);
    CHECK(difference(bfloat16[i], *expected[i]) < (i == 0   ? kBfloat16Out
                                                   : i == 1 ? kFloat32
                                                            : kBfloat16Gradient));
  }
}

TEST_CASE("attention gives the reference's results and gradients where queries see earlier keys") {
  for (const AttentionSizes& sizes : kSizes) check_problem(make_problem(sizes));
}

TEST_CASE("attention gives the reference's results and gradients where queries see all keys") {
  for (const AttentionSizes& sizes : {kSizes[0], kSizes[2], kSizes[4]}) {
    AttentionProblem problem = make_problem(sizes);
    problem.causal = false;
    check_problem(problem);
  }
}

TEST_CASE("attention scales the scores as it is told") {
  AttentionProblem problem = make_problem({1, 256, 2, 1, 32});
  for (const double scale : {0.03, 1.0}) {
    problem.scale = scale;
    // Scores up to 9 * 32: a rounding of 2^-16.
    const std::vector<Floats> got = Attention(problem, Dtype::float32).results(1);
    const AttentionAnswer answer = testing::answer_of(problem);
    CHECK(difference(got[0], answer.out) < 0x1p-16);
    CHECK(difference(got[2], answer.dq) < 0x1p-15);
  }
  problem.scale = 1 / std::sqrt(32.0);
  Attention attention(problem, Dtype::float32);
  const Floats expected = values_of(std::get<0>(attention.forward(1)));
  attention.options().scale.reset();
  CHECK(values_of(std::get<0>(attention.forward(1))) == expected);
}

TEST_CASE("attention stays in documents, which begin within tiles and past whole ones") {
  AttentionProblem problem = make_problem({2, 1152, 2, 1, 32});
  for (const std::vector<int64_t>& begins : {std::vector<int64_t>{0, 1, 300, 700}, {0, 512, 1100, 1151}})
    for (int64_t t = 0; t < 1152; ++t) {
      problem.first_key.push_back(*std::prev(std::upper_bound(begins.begin(), begins.end(), t)));
    }
  problem.first_key[3] = -5;
  problem.first_key[4] = 900;
  check_problem(problem);
}

TEST_CASE("attention in documents of the whole sequence is causal attention, to the bit") {
  AttentionProblem problem = make_problem({1, 640, 2, 1, 32});
  const std::vector<Floats> causal = Attention(problem, Dtype::float32).results(1);
  problem.first_key.assign(640, 0);
  CHECK(Attention(problem, Dtype::float32).results(1) == causal);
}

TEST_CASE("attention's cores change no bit, an odd number of key heads among them") {
  for (const AttentionSizes& sizes :
       {AttentionSizes{1, 384, 6, 3, 32}, {1, 128, 2, 1, 64}, {2, 256, 2, 2, 16}})
    for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
      const AttentionProblem problem = make_problem(sizes);
      CHECK(Attention(problem, dtype).results(1) == Attention(problem, dtype).results(2));
    }
}

TEST_CASE("attention's cores share the work") {
  const auto shaped = [](std::vector<int64_t> shape) {
    return nki::host_tensor("x", std::move(shape), Dtype::float32, nullptr, nullptr);
  };
  const Tensor q = shaped({1, 1024, 4, 64}), k = shaped({1, 1024, 2, 64}), lse = shaped({1, 4, 1024});
  const auto counts = [&](int64_t lnc, bool backward) {
    nki::KernelRun run;
    if (backward) {
      nki::simulate(attention_backward)
          .with({.mode = nki::RunMode::shapes})[lnc]
          .run(&run, q, k, k, {q, lse, q}, {});
    } else {
      nki::simulate(attention_forward).with({.mode = nki::RunMode::shapes})[lnc].run(&run, q, k, k, {});
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

TEST_CASE("attention's gradients agree with finite differences of the forward") {
  AttentionProblem problem = make_problem({1, 256, 4, 2, 4});
  problem.first_key.assign(256, 0);
  for (size_t t = 150; t < 256; ++t) problem.first_key[t] = 150;
  const std::vector<Floats> results = Attention(problem, Dtype::float32).results(1);
  const auto loss = [&] {
    Attention attention(problem, Dtype::float32);
    const Floats out = values_of(std::get<0>(attention.forward(1)));
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += double{out[i]} * double{problem.dout[i]};
    return sum;
  };
  // A step of 2^-4: terms of third order are below 1e-3 of the gradient's scale, and 4096 products of
  // numbers off by 2^-23 move a slope by less than 1e-4.
  constexpr float kStep = 0x1p-4F;
  const std::pair<Floats*, const Floats*> operands[] = {
      {&problem.q, &results[2]}, {&problem.k, &results[3]}, {&problem.v, &results[4]}};
  for (const auto& [x, gradient] : operands) {
    double largest = 0;
    for (const float value : *gradient) largest = std::max(largest, std::abs(double{value}));
    for (size_t i = 5; i < x->size(); i += x->size() / 11) {
      const float kept = (*x)[i];
      (*x)[i] = kept + kStep;
      const double above = loss();
      (*x)[i] = kept - kStep;
      const double below = loss();
      (*x)[i] = kept;
      CHECK(std::abs((above - below) / (2 * double{kStep}) - double{(*gradient)[i]}) < 2e-3 * largest);
    }
  }
}

TEST_CASE("attention never reads keys of tiles above the diagonal") {
  AttentionProblem problem = make_problem({1, 256, 2, 1, 16});
  AttentionProblem poisoned = problem;
  std::fill(poisoned.k.begin() + 128 * 16, poisoned.k.end(), testing::kNaN);
  std::fill(poisoned.v.begin() + 128 * 16, poisoned.v.end(), testing::kNaN);
  const auto first_half = [](const Floats& x) {
    return Floats(x.begin(), x.begin() + static_cast<int64_t>(x.size()) / 2);
  };
  const std::vector<Floats> expected = Attention(problem, Dtype::float32).results(1);
  const std::vector<Floats> got = Attention(poisoned, Dtype::float32).results(1);
  CHECK(first_half(got[0]) == first_half(expected[0]));
  CHECK(first_half(got[2]) == first_half(expected[2]));
}

/// Of x [B, S, H, D]: [B, H, S, D + 3], the last numbers being NaN.
Array padded_heads(const Floats& x, int64_t heads, const AttentionSizes& of) {
  Floats padded(static_cast<size_t>(of.batch * heads * of.length * (of.head_dim + 3)), testing::kNaN);
  for (int64_t b = 0; b < of.batch; ++b)
    for (int64_t s = 0; s < of.length; ++s)
      for (int64_t h = 0; h < heads; ++h)
        std::copy_n(x.begin() + ((b * of.length + s) * heads + h) * of.head_dim, of.head_dim,
                    padded.begin() + ((b * heads + h) * of.length + s) * (of.head_dim + 3));
  return {{of.batch, heads, of.length, of.head_dim + 3}, Dtype::float32, padded};
}

TEST_CASE("attention takes heads in another order with padding, which it never reads") {
  const AttentionProblem problem = make_problem({2, 256, 4, 2, 16});
  const AttentionSizes& of = problem.sizes;
  Array q = padded_heads(problem.q, 4, of), k = padded_heads(problem.k, 2, of);
  Array v = padded_heads(problem.v, 2, of), dout = padded_heads(problem.dout, 4, of);
  const auto view = [](Array& x) {
    return x.tensor()(nki::all, nki::all, nki::all, nki::ds(0, 16)).permute({0, 2, 1, 3});
  };
  const auto [out, lse] = nki::simulate(attention_forward)[2](view(q), view(k), view(v), {});
  const auto [dq, dk, dv] =
      nki::simulate(attention_backward)[2](view(q), view(k), view(v), {out, lse, view(dout)}, {});
  const std::vector<Floats> got = {values_of(out), values_of(lse), values_of(dq), values_of(dk),
                                   values_of(dv)};
  CHECK(got == Attention(problem, Dtype::float32).results(1));
}

TEST_CASE("attention fits into SBUF and PSUM at its largest size, on trn1 and trn2") {
  const auto shaped = [](std::vector<int64_t> shape, Dtype dtype = Dtype::float32) {
    return nki::host_tensor("x", std::move(shape), dtype, nullptr, nullptr);
  };
  for (const bool has_documents : {false, true}) {
    nki::RunOptions run = {.mode = nki::RunMode::shapes};
    if (!has_documents) run.generation = nki::Generation::trn1;
    AttentionOptions options;
    if (has_documents) options.first_key = shaped({1, 8192}, Dtype::int32);
    const Tensor q = shaped({1, 8192, 1, 128}), k = shaped({1, 8192, 1, 128});
    const auto [out, lse] = nki::simulate(attention_forward).with(run)(q, k, k, options);
    CHECK(out.shape() == q.shape());
    CHECK(lse.shape() == std::vector<int64_t>{1, 1, 8192});
    CHECK_NOTHROW(nki::simulate(attention_backward).with(run)(q, k, k, {out, lse, q}, options));
  }
}

TEST_CASE("attention refuses what breaks its contract, by name") {
  using Shape = std::vector<int64_t>;
  const auto f32 = Dtype::float32;
  const auto shaped = [](Shape shape, Dtype dtype) {
    return nki::host_tensor("x", std::move(shape), dtype, nullptr, nullptr);
  };
  const auto run = [&](Shape q, Shape k, Dtype dtype, AttentionOptions options = {}) {
    const Tensor keys = shaped(std::move(k), dtype == Dtype::float16 ? Dtype::float16 : Dtype::float32);
    nki::simulate(attention_forward)
        .with({.mode = nki::RunMode::shapes})(shaped(std::move(q), dtype), keys, keys, std::move(options));
  };
  const Shape x = {1, 128, 2, 16};
  CHECK_THROWS_WITH_AS(run({128, 2, 16}, x, f32), Contains("have to be [batch, sequence"), ValueError);
  CHECK_THROWS_WITH_AS(run({2, 128, 2, 16}, x, f32), Contains("may differ in their heads only"), ValueError);
  CHECK_THROWS_WITH_AS(run(x, x, Dtype::float16), Contains("got float16"), ValueError);
  CHECK_THROWS_WITH_AS(run(x, x, Dtype::bfloat16), Contains("q's dtype bfloat16, got float32"), ValueError);
  CHECK_THROWS_WITH_AS(run({1, 128, 3, 16}, x, f32), Contains("3 heads of q have to be a multiple of k's 2"),
                       ValueError);
  CHECK_THROWS_WITH_AS(run({1, 192, 2, 16}, {1, 192, 2, 16}, f32), Contains("multiple of 128"), ValueError);
  CHECK_THROWS_WITH_AS(run({1, 8320, 2, 16}, {1, 8320, 2, 16}, f32), Contains("at most 8192, got 8320"),
                       ValueError);
  CHECK_THROWS_WITH_AS(run({1, 128, 2, 129}, {1, 128, 2, 129}, f32), Contains("head_dim"), ValueError);
  for (const double scale : {0.0, -1.0, 1.5, std::nan("")}) {
    CHECK_THROWS_WITH_AS(run(x, x, f32, {.scale = scale}), Contains("scale has to be above 0"), ValueError);
  }
  const Tensor keys = shaped({1, 128}, Dtype::int32);
  CHECK_THROWS_WITH_AS(run(x, x, f32, {.causal = false, .first_key = keys}), Contains("needs causal"),
                       ValueError);
  CHECK_THROWS_WITH_AS(run(x, x, f32, {.first_key = shaped({128}, Dtype::int32)}),
                       Contains("first_key has to be [1, 128]"), ValueError);
  CHECK_THROWS_WITH_AS(run(x, x, f32, {.first_key = shaped({1, 128}, f32)}), Contains("int32"), ValueError);

  const auto backward = [&](const AttentionGradients& of) {
    const Tensor q = shaped(x, f32);
    nki::simulate(attention_backward).with({.mode = nki::RunMode::shapes})(q, q, q, of, {});
  };
  const Tensor q = shaped(x, f32), lse = shaped({1, 2, 128}, f32);
  CHECK_THROWS_WITH_AS(backward({q, lse, shaped({1, 128, 2, 8}, f32)}), Contains("dout [1, 128, 2, 8]"),
                       ValueError);
  CHECK_THROWS_WITH_AS(backward({shaped(x, Dtype::bfloat16), lse, q}), Contains("q's dtype float32"),
                       ValueError);
  CHECK_THROWS_WITH_AS(backward({q, shaped({1, 128, 2}, f32), q}), Contains("lse has to be [1, 2, 128]"),
                       ValueError);
}

}  // namespace
}  // namespace titan::nkilib
