#include "titan/nkilib/rope_hf/rope_hf.h"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/nkilib/arrays.h"
#include "titan/base/error.h"
#include "titan/nki/cost.h"

namespace titan::nkilib {
namespace {

using doctest::Contains;
using nki::Dtype;
using nki::Tensor;
using testing::Array;
using testing::rounded;
using Floats = std::vector<float>;

struct Shape {
  int64_t batch, q_heads, k_heads, length, head_dim;
  Dtype dtype;
};

const Shape kPublicShapes[] = {
    {1, 32, 8, 256, 128, Dtype::bfloat16}, {1, 32, 8, 256, 128, Dtype::float32},
    {2, 16, 4, 512, 128, Dtype::bfloat16}, {4, 1, 1, 512, 128, Dtype::bfloat16},
    {1, 32, 8, 512, 64, Dtype::float32},
};

/// [rows, 2 D], cosines first; positions are those of the document that a row is in.
Floats make_cache(int64_t rows, int64_t head_dim, int64_t document) {
  Floats cache;
  const int64_t half = head_dim / 2;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < 2 * head_dim; ++column) {
      const double exponent = static_cast<double>(column % half) / static_cast<double>(half);
      const double angle = static_cast<double>(row % document) * std::pow(1e4, -exponent);
      cache.push_back(static_cast<float>(column < head_dim ? std::cos(angle) : std::sin(angle)));
    }
  return cache;
}

/// x cos + rotate_half(x) sin, or x cos + rotate_half_backward(x sin), of [B, H, S, D]; every product and sum
/// rounded to `dtype`. Row (b, s) of the cache is b * stride + s.
Floats rotated(const Floats& x, const Shape& shape, int64_t heads, const Floats& cache, int64_t stride,
               bool backward) {
  Floats y(x.size());
  const int64_t half = shape.head_dim / 2;
  const auto round = [&](float value) { return rounded(value, shape.dtype); };
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t s = 0; s < shape.length; ++s) {
        const auto row = static_cast<size_t>(((b * heads + h) * shape.length + s) * shape.head_dim);
        const float* cos = cache.data() + (b * stride + s) * 2 * shape.head_dim;
        const float* sin = cos + shape.head_dim;
        for (int64_t d = 0; d < shape.head_dim; ++d) {
          const int64_t other = d < half ? d + half : d - half;
          const float across = x[row + static_cast<size_t>(other)];
          const float turned = (d < half) == backward ? across : -across;
          const float product = round(turned * round(sin[backward ? other : d]));
          const float here = x[row + static_cast<size_t>(d)];
          y[row + static_cast<size_t>(d)] = round(round(here * round(cos[d])) + product);
        }
      }
  return y;
}

/// The two tensors, and what the kernel makes of them.
struct Rotation {
  explicit Rotation(const Shape& of, uint32_t seed = 1)
      : shape(of),
        q({of.batch, of.q_heads, of.length, of.head_dim}, of.dtype,
          testing::draw(of.batch * of.q_heads * of.length * of.head_dim, seed)),
        k({of.batch, of.k_heads, of.length, of.head_dim}, of.dtype,
          testing::draw(of.batch * of.k_heads * of.length * of.head_dim, seed + 1)),
        q_out({of.batch, of.q_heads, of.length, of.head_dim}, of.dtype),
        k_out({of.batch, of.k_heads, of.length, of.head_dim}, of.dtype) {}

  void run(int64_t lnc, RopeHfOptions options) {
    const Tensor q_result = q_out.tensor("q_out"), k_result = k_out.tensor("k_out");
    const auto [q_given, k_given] =
        nki::simulate(rope_hf)[lnc](q.tensor("q"), k.tensor("k"), q_result, k_result, std::move(options));
    CHECK(q_given.allocation() == q_result.allocation());
    CHECK(k_given.allocation() == k_result.allocation());
  }
  void check(const Floats& cache, int64_t stride, bool backward) const {
    CHECK(testing::largest_difference(
              q_out.values(), rotated(q.values(), shape, shape.q_heads, cache, stride, backward)) == 0.0);
    CHECK(testing::largest_difference(
              k_out.values(), rotated(k.values(), shape, shape.k_heads, cache, stride, backward)) == 0.0);
    CHECK(q_out.guards_are_whole());
    CHECK(k_out.guards_are_whole());
  }

  Shape shape;
  Array q, k, q_out, k_out;
};

TEST_CASE("rope_hf gives the reference's bits over the public shapes, forward and backward") {
  for (const Shape& shape : kPublicShapes)
    for (const int64_t lnc : {1, 2})
      for (const bool backward : {false, true}) {
        CAPTURE(lnc);
        CAPTURE(backward);
        const Floats numbers = make_cache(shape.length, shape.head_dim, shape.length);
        Array cache({shape.length, 2 * shape.head_dim}, Dtype::float32, numbers);
        Rotation rotation(shape);
        rotation.run(lnc, {.rope_cache = cache.tensor("cache"), .backward = backward});
        rotation.check(numbers, 0, backward);
      }
}

TEST_CASE("rope_hf turns gradients by the sines of the other half where the halves differ") {
  const Shape shape = {1, 2, 1, 256, 64, Dtype::float32};
  const Floats numbers = testing::draw(256 * 128, 7, 1);
  for (const bool backward : {false, true}) {
    Array cache({256, 128}, Dtype::float32, numbers);
    Rotation rotation(shape);
    rotation.run(2, {.rope_cache = cache.tensor(), .backward = backward});
    rotation.check(numbers, 0, backward);
  }
}

TEST_CASE("rope_hf backward is the transpose of forward") {
  // <g, R x> = <R^T g, x>, sums of 2 * 128 * 64 products in double: only the kernel's roundings are left.
  const Shape shape = {1, 2, 1, 128, 64, Dtype::float32};
  Array cache({128, 128}, Dtype::float32, testing::draw(128 * 128, 7, 1));
  Rotation forward(shape, 1), backward(shape, 11);
  forward.run(1, {.rope_cache = cache.tensor()});
  backward.run(1, {.rope_cache = cache.tensor(), .backward = true});
  const auto dot = [](const Array& a, const Array& b) {
    const Floats left = a.values(), right = b.values();
    double sum = 0;
    for (size_t i = 0; i < left.size(); ++i) sum += double{left[i]} * double{right[i]};
    return sum;
  };
  // Each of the 2^14 terms is below 3 * 3 * 2 and off by at most 3 roundings of 2^-24.
  const double bound = 16384 * 18 * 3 * std::pow(2.0, -24);
  CHECK(std::abs(dot(backward.q, forward.q_out) - dot(backward.q_out, forward.q)) < bound);
  CHECK(std::abs(dot(backward.k, forward.k_out) - dot(backward.k_out, forward.k)) < bound);
}

TEST_CASE("rope_hf takes positions of each sequence of a batch") {
  for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    const Shape shape = {4, 2, 1, 256, 64, dtype};
    Floats numbers;
    for (int64_t b = 0; b < shape.batch; ++b) {
      const Floats part = make_cache(256, 64, 50 + 13 * b);
      numbers.insert(numbers.end(), part.begin(), part.end());
    }
    Array cache({4, 256, 128}, Dtype::float32, numbers);
    for (const int64_t lnc : {1, 2})
      for (const bool backward : {false, true}) {
        Rotation rotation(shape);
        rotation.run(lnc, {.rope_cache = cache.tensor(), .backward = backward});
        rotation.check(numbers, 256, backward);
      }
  }
}

TEST_CASE("rope_hf takes cosines and sines apart, as it takes a cache") {
  const Shape shape = {2, 2, 1, 256, 64, Dtype::bfloat16};
  const Floats numbers = make_cache(512, 64, 300);
  Floats cos, sin;
  for (size_t i = 0; i < numbers.size(); ++i) (i % 128 < 64 ? cos : sin).push_back(numbers[i]);
  Array cos_array({2, 256, 64}, Dtype::float32, cos), sin_array({2, 256, 64}, Dtype::float32, sin);
  Rotation rotation(shape);
  rotation.run(2, {.cos = cos_array.tensor(), .sin = sin_array.tensor()});
  rotation.check(numbers, 256, false);
}

TEST_CASE("rope_hf goes over more rows than a DMA has tiles for") {
  // 9 tiles: 8 and 1; on two cores 5 tiles each.
  for (const auto& [length, lnc] : {std::pair<int64_t, int64_t>{1152, 1}, {1280, 2}}) {
    const Shape shape = {1, 1, 1, length, 32, Dtype::float32};
    const Floats numbers = make_cache(length, 32, length);
    Array cache({length, 64}, Dtype::float32, numbers);
    Rotation rotation(shape);
    rotation.run(lnc, {.rope_cache = cache.tensor()});
    rotation.check(numbers, 0, false);
  }
}

TEST_CASE("rope_hf never reads a cache's rows past the sequence") {
  const Floats numbers = make_cache(256, 64, 256);
  const auto with_padding = [&](int64_t batch) {
    Floats padded;
    for (int64_t b = 0; b < batch; ++b) {
      padded.insert(padded.end(), numbers.begin(), numbers.end());
      padded.insert(padded.end(), 100 * 128, testing::kNaN);
    }
    return padded;
  };
  Array one({356, 128}, Dtype::float32, with_padding(1)),
      each({3, 356, 128}, Dtype::float32, with_padding(3));
  Rotation single({1, 2, 1, 256, 64, Dtype::float32}), several({3, 2, 1, 256, 64, Dtype::float32});
  single.run(2, {.rope_cache = one.tensor()});
  single.check(numbers, 0, false);
  several.run(2, {.rope_cache = each.tensor()});
  several.check(numbers, 0, false);
}

TEST_CASE("rope_hf rotates in place") {
  const Shape shape = {1, 3, 1, 256, 64, Dtype::bfloat16};
  const Floats numbers = make_cache(256, 64, 256);
  Array cache({256, 128}, Dtype::float32, numbers);
  for (const int64_t lnc : {1, 2}) {
    Rotation rotation(shape);
    const Floats q = rotated(rotation.q.values(), shape, 3, numbers, 0, false);
    const Floats k = rotated(rotation.k.values(), shape, 1, numbers, 0, false);
    const Tensor q_both = rotation.q.tensor(), k_both = rotation.k.tensor();
    nki::simulate(rope_hf)[lnc](q_both, k_both, q_both, k_both, {.rope_cache = cache.tensor()});
    CHECK(rotation.q.values() == q);
    CHECK(rotation.k.values() == k);
  }
}

TEST_CASE("rope_hf issues the documented number of instructions") {
  const auto shaped = [](std::vector<int64_t> sizes, Dtype dtype) {
    return nki::host_tensor("x", std::move(sizes), dtype, nullptr, nullptr);
  };
  const Tensor q = shaped({1, 32, 4096, 128}, Dtype::bfloat16),
               k = shaped({1, 4, 4096, 128}, Dtype::bfloat16);
  nki::KernelRun run;
  nki::simulate(rope_hf)[2]
      .with({.mode = nki::RunMode::shapes})
      .run(&run, q, k, q, k, {.rope_cache = shaped({4096, 256}, Dtype::float32)});
  for (const nki::CoreRecord& core : run.cores) {
    int64_t copies = 0, computations = 0;
    for (const nki::Instruction& instruction : core.instructions) {
      copies += instruction.name() == "dma_copy";
      computations += instruction.name() == "tensor_tensor";
    }
    CHECK(copies == 148);
    CHECK(computations == 360);
  }
}

TEST_CASE("rope_hf takes half the time on two cores") {
  const auto shaped = [](std::vector<int64_t> sizes) {
    return nki::host_tensor("x", std::move(sizes), Dtype::bfloat16, nullptr, nullptr);
  };
  const Tensor q = shaped({1, 8, 4096, 128}), k = shaped({1, 2, 4096, 128});
  const auto seconds = [&](int64_t lnc) {
    nki::KernelRun run;
    nki::simulate(rope_hf)[lnc]
        .with({.mode = nki::RunMode::shapes})
        .run(&run, q, k, q, k, {.rope_cache = shaped({4096, 256})});
    return nki::predict(run).seconds;
  };
  // What does not halve is the latency of the first load and of the last store.
  const double one = seconds(1), two = seconds(2);
  CHECK(two >= one / 2);
  CHECK(two < one / 2 + 5e-6);
}

/// What a call with these sizes says.
struct Call {
  std::vector<int64_t> q = {2, 2, 256, 64}, k = {2, 1, 256, 64};
  std::vector<int64_t> q_out = {2, 2, 256, 64}, k_out = {2, 1, 256, 64};
  std::optional<std::vector<int64_t>> cache = std::vector<int64_t>{256, 128}, cos = {}, sin = {};
  Dtype k_dtype = Dtype::float32, out_dtype = Dtype::float32, cache_dtype = Dtype::float32;
};

std::string error_of(const Call& call, int64_t lnc = 1) {
  const auto shaped = [](const char* name, const std::vector<int64_t>& sizes, Dtype dtype) {
    return nki::host_tensor(name, sizes, dtype, nullptr, nullptr);
  };
  const auto optional = [&](const char* name, const std::optional<std::vector<int64_t>>& sizes) {
    return sizes ? std::optional(shaped(name, *sizes, call.cache_dtype)) : std::nullopt;
  };
  try {
    nki::simulate(rope_hf)[lnc].with({.mode = nki::RunMode::shapes})(
        shaped("q", call.q, Dtype::float32), shaped("k", call.k, call.k_dtype),
        shaped("q_out", call.q_out, call.out_dtype), shaped("k_out", call.k_out, Dtype::float32),
        {.cos = optional("cos", call.cos),
         .sin = optional("sin", call.sin),
         .rope_cache = optional("rope_cache", call.cache)});
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

/// Sizes of q, k and both outputs.
Call sequence_of(int64_t batch, int64_t length, int64_t head_dim) {
  return {.q = {batch, 2, length, head_dim},
          .k = {batch, 1, length, head_dim},
          .q_out = {batch, 2, length, head_dim},
          .k_out = {batch, 1, length, head_dim},
          .cache = std::vector<int64_t>{length, 2 * head_dim}};
}

TEST_CASE("rope_hf refuses lengths that its tiles do not divide") {
  CHECK(error_of(sequence_of(1, 64, 128)) == "rope_hf: seq len must be multiple of 128 * LNC=128, got 64");
  CHECK(error_of(sequence_of(1, 384, 128)).empty());
  CHECK(error_of(sequence_of(1, 384, 128), 2) ==
        "rope_hf: seq len must be multiple of 128 * LNC=256, got 384");
  CHECK(error_of(sequence_of(1, 128, 63)) == "rope_hf: head_dim has to be even, got 63");
}

TEST_CASE("rope_hf takes heads up to what fits into SBUF, of one sequence and of several") {
  // 9 tiles of rows: a DMA of 8, and one of the rest.
  struct Head {
    Dtype dtype;
    int64_t most;
  };
  for (const auto& [dtype, most] : {Head{Dtype::float32, 1364}, Head{Dtype::bfloat16, 2728}})
    for (const bool has_batch : {false, true}) {
      const auto rotate = [&, &as = dtype](int64_t head_dim) {
        const auto shape = [&](std::vector<int64_t> sizes) {
          return nki::host_tensor("x", std::move(sizes), as, nullptr, nullptr);
        };
        const Tensor q = shape({2, 2, 9 * 128, head_dim}), k = shape({2, 1, 9 * 128, head_dim});
        const Tensor cache = has_batch ? shape({2, 9 * 128, 2 * head_dim}) : shape({9 * 128, 2 * head_dim});
        nki::simulate(rope_hf).with({.mode = nki::RunMode::shapes})[1](q, k, q, k, {.rope_cache = cache});
      };
      CHECK_NOTHROW(rotate(most));
      CHECK_NOTHROW(rotate(most - 2));
      CHECK_THROWS_WITH_AS(rotate(most + 2), doctest::Contains("rope_hf: head_dim has to be at most"),
                           ValueError);
    }
}

TEST_CASE("rope_hf refuses a flattened cache of a batch") {
  Call call = sequence_of(4, 256, 64);
  CHECK(error_of(call).empty());
  call.cache = {{4 * 256, 128}};
  CHECK(error_of(call) ==
        "rope_hf: rope_cache [1024, 128] has no batch dimension, so for a batch of 4 it has to have exactly "
        "256 rows; give positions that differ between sequences as [4, 256, 128]");
  call.cache = {{4, 256, 128}};
  CHECK(error_of(call).empty());
  call.cache = std::nullopt;
  call.cos = call.sin = {{4 * 256, 64}};
  CHECK(error_of(call).find("cos [1024, 64] has no batch dimension") != std::string::npos);
}

TEST_CASE("rope_hf names the operand that breaks its contract") {
  using Sizes = std::vector<int64_t>;
  const std::tuple<Call, const char*> wrong[] = {
      {{.q = {2, 256, 64}, .q_out = {2, 256, 64}}, "q has to be [batch, heads, sequence, head_dim], got [2,"},
      {{.k = {2, 256, 64}, .k_out = {2, 256, 64}}, "k has to be [batch, heads"},
      {{.k = {3, 1, 256, 64}, .k_out = {3, 1, 256, 64}}, "and k [3, 1, 256, 64] may differ in their heads"},
      {{.k = {2, 1, 128, 64}, .k_out = {2, 1, 128, 64}}, "and k [2, 1, 128, 64] may differ in their heads"},
      {{.k = {2, 1, 256, 32}, .k_out = {2, 1, 256, 32}}, "and k [2, 1, 256, 32] may differ in their heads"},
      {{.q_out = {2, 1, 256, 64}}, "q_out [2, 1, 256, 64] has to have q's shape [2, 2, 256, 64]"},
      {{.k_out = {2, 2, 256, 64}}, "k_out [2, 2, 256, 64] has to have k's shape [2, 1, 256, 64]"},
      {{.k_dtype = Dtype::bfloat16}, "k is bfloat16 and k_out float32; both have to have q's dtype float32"},
      {{.out_dtype = Dtype::bfloat16}, "q is float32 and q_out bfloat16"},
      {{.k_dtype = Dtype::int32}, "k is int32; rotations are of floating-point numbers"},
      {{.cache_dtype = Dtype::int32}, "rope_cache is int32"},
      {{.cache = Sizes{256}}, "rope_cache has to be [sequence, 128] or [batch, sequence, 128], got [256]"},
      {{.cache = Sizes{256, 64}}, "rope_cache [256, 64] has to have 128 columns for head_dim 64"},
      {{.cache = Sizes{128, 128}}, "rope_cache [128, 128] has to have a row for each of the 256 positions"},
      {{.cache = Sizes{300, 128}}, "it has to have exactly 256 rows"},
      {{.cache = Sizes{1, 256, 128}}, "rope_cache [1, 256, 128] has to have q's batch of 2"},
      {{.cache = Sizes{2, 255, 128}}, "has to have a row for each of the 256 positions"},
      {{.cache = std::nullopt}, "takes either rope_cache or both cos and sin"},
      {{.cache = std::nullopt, .cos = Sizes{256, 64}}, "takes either rope_cache or both cos and sin"},
      {{.cos = Sizes{256, 64}}, "takes either rope_cache or both cos and sin"},
      {{.cache = std::nullopt, .cos = Sizes{256, 64}, .sin = Sizes{2, 256, 64}},
       "cos [256, 64] and sin [2, 256, 64] have to have the same shape"},
      {{.cache = std::nullopt, .cos = Sizes{256, 64}, .sin = Sizes{256, 32}}, "sin [256, 32] has to have 64"},
  };
  for (const auto& [call, message] : wrong)
    for (const int64_t lnc : {1, 2})
      CHECK_MESSAGE(error_of(call, lnc).find(message) != std::string::npos, message);
}

TEST_CASE("rope_hf refuses views that are not contiguous") {
  Rotation rotation({1, 2, 2, 256, 64, Dtype::float32});
  Array cache({256, 128}, Dtype::float32, make_cache(256, 64, 256));
  const Tensor q = rotation.q.tensor(), turned = q.reshape({1, 256, 2, 64}).permute({0, 2, 1, 3});
  CHECK_THROWS_WITH_AS(nki::simulate(rope_hf)(turned, q, q, q, {.rope_cache = cache.tensor()}),
                       Contains("q [1, 2, 256, 64] is a view with gaps or in another order"), ValueError);
}

}  // namespace
}  // namespace titan::nkilib
