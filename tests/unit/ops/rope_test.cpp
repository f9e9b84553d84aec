#include "titan/ops/rope.h"

#include <ATen/ops/cat.h>

#include "tests/unit/ops/outcome.h"
#include "tests/unit/test_device.h"
#include "titan/base/error.h"

using namespace titan;
using at::Tensor;

namespace {

/// Positions [2, 10]; the second row holds two documents.
Tensor positions() {
  auto all = at::empty({2, 10}, at::TensorOptions(at::kLong));
  auto* position = all.mutable_data_ptr<int64_t>();
  for (int64_t t = 0; t < 10; ++t) {
    position[t] = t + 100;
    position[10 + t] = t < 4 ? t : t - 4;
  }
  return all;
}

/// x · cos + rotate_half(x) · sin, as transformers writes it.
Tensor rotate(const Tensor& x, const Tensor& cache) {
  const int64_t dim = x.size(3);
  const auto cos = cache.narrow(2, 0, dim).unsqueeze(2).to(x.scalar_type());
  const auto sin = cache.narrow(2, dim, dim).unsqueeze(2).to(x.scalar_type());
  const auto half = at::cat({x.narrow(3, dim / 2, dim / 2).neg(), x.narrow(3, 0, dim / 2)}, 3);
  return x * cos + half * sin;
}

Tensor joined(const std::pair<Tensor, Tensor>& rotated) {
  return at::cat({rotated.first, rotated.second}, 2);
}

}  // namespace

TEST_CASE("the cache holds cos and sin of position times inverse frequency") {
  const auto cache = rope_cache(positions(), rope_inverse_frequencies(6, 1e4).to(tests::test_device()));
  CHECK(cache.sizes() == at::IntArrayRef({2, 10, 12}));
  const float* row = cache.const_data_ptr<float>() + 3 * 12;  // position 103
  for (int64_t i = 0; i < 3; ++i) {
    const double angle = 103 * std::pow(1e4, -2.0 * static_cast<double>(i) / 6);
    for (const int64_t half : {int64_t{0}, int64_t{3}}) {
      CHECK(row[half + i] == doctest::Approx(std::cos(angle)).epsilon(2e-5));
      CHECK(row[6 + half + i] == doctest::Approx(std::sin(angle)).epsilon(2e-5));
    }
  }
}

TEST_CASE("rope agrees with the rotate-half formula, bit for bit in float32") {
  for (const int64_t dim : {2, 18, 32, 64, 128}) {
    const auto cache = rope_cache(positions(), rope_inverse_frequencies(dim, 1e6).to(tests::test_device()));
    const auto ours = [&](const std::vector<Tensor>& in) {
      return joined(rope_cos_sin(in[0], in[1], cache));
    };
    const auto reference = [&](const std::vector<Tensor>& in) {
      return at::cat({rotate(in[0], cache), rotate(in[1], cache)}, 2);
    };
    const std::vector<Tensor> inputs{normal({2, 10, 4, dim}, 1), normal({2, 10, 2, dim}, 2)};
    CHECK(same_bits(outcome(ours, inputs), outcome(reference, inputs)));
    check_against(ours, reference, {inputs[0].to(at::kBFloat16), inputs[1].to(at::kBFloat16)}, kBf16Bound);
  }
}

TEST_CASE("the complex form gives the bits of the cos/sin form, forward and backward") {
  const auto frequencies = rope_inverse_frequencies(18, 1e6).to(tests::test_device());
  const auto cache = rope_cache(positions(), frequencies),
             complex = rope_complex_cache(positions(), frequencies);
  const std::vector<Tensor> inputs{normal({2, 10, 4, 18}, 1), normal({2, 10, 2, 18}, 2)};
  CHECK(complex.sizes() == at::IntArrayRef({2, 10, 9, 2}));
  CHECK(same_bits(
      outcome([&](const std::vector<Tensor>& in) { return joined(rope_complex(in[0], in[1], complex)); },
              inputs),
      outcome([&](const std::vector<Tensor>& in) { return joined(rope_cos_sin(in[0], in[1], cache)); },
              inputs)));
}

TEST_CASE("a cache of one row serves every row, and strided heads are taken as they are") {
  const auto one = positions().narrow(0, 0, 1);
  const auto frequencies = rope_inverse_frequencies(8, 1e4).to(tests::test_device());
  const auto q = normal({3, 6, 10, 8}, 1).transpose(1, 2), k = normal({3, 10, 2, 8}, 2);
  const auto both = one.expand({3, 10});
  const auto given = rope_cos_sin(q, k, rope_cache(one, frequencies));
  const auto expected = rope_cos_sin(q.contiguous(), k, rope_cache(both, frequencies));
  CHECK(given.first.equal(expected.first));
  CHECK(given.second.equal(expected.second));
}

TEST_CASE("only one of the rotated tensors may be used") {
  const auto cache = rope_cache(positions(), rope_inverse_frequencies(8, 1e4).to(tests::test_device()));
  const auto q = normal({2, 10, 2, 8}, 1).requires_grad_(), k = normal({2, 10, 1, 8}, 2).requires_grad_();
  backward(rope_cos_sin(q, k, cache).first.sum());
  CHECK(q.grad().abs().sum().item<double>() > 0);
  CHECK(k.grad().abs().sum().item<double>() == 0);
}

TEST_CASE("rope refuses caches and heads that do not fit") {
  const auto cache = rope_cache(positions(), rope_inverse_frequencies(8, 1e4).to(tests::test_device()));
  const auto q = normal({2, 10, 2, 8}, 1);
  CHECK_THROWS_AS(rope_cos_sin(q.narrow(1, 0, 9), q, cache), ValueError);
  CHECK_THROWS_AS(rope_cos_sin(q, normal({2, 10, 2, 6}, 1), cache), ValueError);
  CHECK_THROWS_AS(rope_cos_sin(q, q, cache.to(at::kBFloat16)), ValueError);
  CHECK_THROWS_AS(rope_inverse_frequencies(7, 1e4), ValueError);
}
