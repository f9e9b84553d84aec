#include "titan/ops/rms_norm.h"

#include <ATen/ops/rsqrt.h>

#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"

using namespace titan;
using at::Tensor;

namespace {

constexpr double kNormEps = 1e-6;

Tensor rms_norm_of(const std::vector<Tensor>& in) { return rms_norm(in[0], in[1], kNormEps); }
Tensor norm_of(const Tensor& x, const Tensor& weight) {
  return x * (x.square().mean(-1, /*keepdim=*/true) + kNormEps).rsqrt() * weight;
}
Tensor rms_norm_reference(const std::vector<Tensor>& in) { return norm_of(in[0], in[1]); }

}  // namespace

TEST_CASE("rms_norm agrees with a reference in double, forward and backward") {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t dim : {2, 15, 32, 33, 256}) {
      check_against(rms_norm_of, rms_norm_reference,
                    {normal({3, 100, dim}, 1, dtype), normal({dim}, 2, dtype)}, bound_of(dtype));
    }
  }
  check_against(rms_norm_of, rms_norm_reference, {normal({2, 5, 20}, 1, at::kBFloat16), normal({20}, 2)},
                kBf16Bound);
}

TEST_CASE("rms_norm of a single number is its sign times the weight") {
  const auto x = normal({20, 1}, 1), weight = normal({1}, 2);
  CHECK(rms_norm(x, weight, 0).allclose(x.sign() * weight, 1e-6));
}

TEST_CASE("rms_norm skips the gradient nobody wants") {
  const auto weight = normal({33}, 2), x = normal({4, 33}, 1).requires_grad_();
  backward(rms_norm(x, weight, kNormEps).sum());
  CHECK(x.grad().defined());
  const auto trained = weight.clone().requires_grad_();
  backward(rms_norm(x.detach(), trained, kNormEps).sum());
  CHECK(trained.grad().defined());
}

TEST_CASE("add_rms_norm has the bits of its parts, forward and backward") {
  const auto fused = [](const std::vector<Tensor>& in) {
    const auto [sum, y] = add_rms_norm(in[0], in[1], in[2], kNormEps);
    return sum * 2 + y;
  };
  const auto parts = [](const std::vector<Tensor>& in) {
    const auto sum = in[0] + in[1];
    return sum * 2 + rms_norm(sum, in[2], kNormEps);
  };
  const std::vector<Tensor> inputs{normal({3, 50, 33}, 1), normal({3, 50, 33}, 2), normal({33}, 3)};
  CHECK(same_bits(outcome(fused, inputs), outcome(parts, inputs)));
  const auto in_double = [](const std::vector<Tensor>& in) {
    return (in[0] + in[1]) * 2 + norm_of(in[0] + in[1], in[2]);
  };
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    check_against(fused, in_double,
                  {normal({3, 50, 33}, 1, dtype), normal({3, 50, 33}, 2, dtype), normal({33}, 3, dtype)},
                  bound_of(dtype));
  }
}

TEST_CASE("each output of add_rms_norm alone carries its gradient") {
  const auto x = normal({4, 16}, 1).requires_grad_(), y = normal({4, 16}, 2).requires_grad_();
  const auto weight = normal({16}, 3).requires_grad_();
  backward(add_rms_norm(x, y, weight, kNormEps).first.sum());
  CHECK(x.grad().sum().item<double>() == 64);
  CHECK_FALSE(weight.grad().defined());
  backward(add_rms_norm(x, y, weight, kNormEps).second.sum());
  CHECK(weight.grad().defined());
}

TEST_CASE("rms_norm of no rows works and wrong shapes are refused") {
  CHECK(rms_norm(normal({0, 8}, 1), normal({8}, 2), kNormEps).sizes() == at::IntArrayRef({0, 8}));
  CHECK_THROWS_AS(rms_norm(normal({2, 8}, 1), normal({9}, 2), kNormEps), ValueError);
  CHECK_THROWS_AS(rms_norm(normal({2, 8}, 1), normal({8}, 2, at::kBFloat16), kNormEps), ValueError);
}
