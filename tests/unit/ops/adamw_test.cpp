#include "titan/ops/adamw.h"

#include <ATen/ops/zeros_like.h>

#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"

using namespace titan;
using at::Tensor;

namespace {

/// A parameter with its moments.
struct AdamWState {
  Tensor param, exp_avg, exp_avg_sq;

  explicit AdamWState(const Tensor& start, at::ScalarType moments = at::kFloat)
      : param(start.clone()),
        exp_avg(at::zeros_like(start, moments)),
        exp_avg_sq(at::zeros_like(start, moments)) {}

  void step(const Tensor& grad, const AdamWOptions& options) {
    adamw_({param}, {grad}, {exp_avg}, {exp_avg_sq}, options);
  }
};

/// One step of torch.optim.AdamW, in the dtype of `state`.
void reference_step(AdamWState& state, const Tensor& unscaled, const AdamWOptions& o) {
  const auto grad = unscaled.to(state.param.scalar_type()) * o.grad_scale;
  state.param.mul_(1 - o.lr * o.weight_decay);
  state.exp_avg.lerp_(grad, 1 - o.beta1);
  state.exp_avg_sq.mul_(o.beta2).addcmul_(grad, grad, 1 - o.beta2);
  const double correction1 = 1 - std::pow(o.beta1, o.step), correction2 = 1 - std::pow(o.beta2, o.step);
  const auto denominator = state.exp_avg_sq.sqrt().div(std::sqrt(correction2)).add(o.eps);
  state.param.addcdiv_(state.exp_avg, denominator, -o.lr / correction1);
}

}  // namespace

TEST_CASE("ten AdamW steps agree with torch's formula in double") {
  const auto start = normal({101, 331}, 1);
  AdamWState ours(start), expected(start.to(at::kDouble), at::kDouble);
  AdamWOptions options{.lr = 3e-3, .weight_decay = 0.1, .grad_scale = 0.37};
  for (options.step = 1; options.step <= 10; ++options.step) {
    const auto grad = normal({101, 331}, static_cast<unsigned>(options.step) + 10);
    ours.step(grad, options);
    reference_step(expected, grad, options);
  }
  CHECK(difference(ours.param, expected.param) < 1e-6);
  CHECK(difference(ours.exp_avg, expected.exp_avg) < 1e-6);
  CHECK(difference(ours.exp_avg_sq, expected.exp_avg_sq) < 1e-6);
  CHECK(difference(ours.param - start, expected.param - start) < 1e-4);
}

TEST_CASE("AdamW keeps bfloat16 parameters, gradients and moments as they are stored") {
  const auto start = normal({67}, 1, at::kBFloat16);
  AdamWState ours(start, at::kBFloat16), expected(start.to(at::kDouble), at::kDouble);
  const AdamWOptions options{.lr = 0.1};
  const auto grad = normal({67}, 2, at::kBFloat16);
  ours.step(grad, options);
  reference_step(expected, grad, options);
  CHECK((ours.param.scalar_type() == at::kBFloat16));
  CHECK(difference(ours.param, expected.param) < 4e-3);
  CHECK(difference(ours.exp_avg, expected.exp_avg) < 4e-3);
}

TEST_CASE("one call updates many tensors and skips those without a gradient") {
  AdamWState a(normal({70000}, 1)), b(normal({3}, 2)), c(normal({5, 5}, 3)), alone(normal({70000}, 1));
  const auto grad_a = normal({70000}, 4), grad_c = normal({5, 5}, 5).t();
  const auto untouched = b.param.clone();
  adamw_({a.param, b.param, c.param}, {grad_a, Tensor(), grad_c}, {a.exp_avg, b.exp_avg, c.exp_avg},
         {a.exp_avg_sq, b.exp_avg_sq, c.exp_avg_sq}, {});
  alone.step(grad_a, {});
  CHECK(a.param.equal(alone.param));
  CHECK(b.param.equal(untouched));
  AdamWState strided(normal({5, 5}, 3));
  strided.step(grad_c.contiguous(), {});
  CHECK(c.param.equal(strided.param));
}

TEST_CASE("AdamW steps parameters that require gradients, and a graph that saved one notices") {
  AdamWState state(normal({8}, 1));
  state.param.requires_grad_();
  const auto squares = state.param.square().sum();
  state.step(normal({8}, 2), {});
  CHECK(state.param.is_leaf());
  CHECK_THROWS(backward(squares));
}

TEST_CASE("AdamW refuses lists, shapes and steps that do not fit") {
  AdamWState state(normal({8}, 1));
  CHECK_THROWS_AS(state.step(normal({9}, 2), {}), ValueError);
  CHECK_THROWS_AS(state.step(normal({8}, 2), {.step = 0}), ValueError);
  CHECK_THROWS_AS(state.step(normal({8}, 2, at::kDouble), {}), ValueError);
  CHECK_THROWS_AS(adamw_({state.param}, {}, {}, {}, {}), ValueError);
}

TEST_CASE("grad_norm is the L2 norm over all tensors") {
  const std::vector<Tensor> grads{normal({300, 333}, 1), Tensor(), normal({7}, 2, at::kBFloat16),
                                  normal({4, 5}, 3).t()};
  double squares = 0;
  for (const auto& grad : grads) {
    if (grad.defined()) squares += grad.to(at::kDouble).square().sum().item<double>();
  }
  CHECK(squared_norm(grads).item<double>() == doctest::Approx(squares).epsilon(1e-12));
  CHECK((grad_norm(grads).scalar_type() == at::kFloat));
  CHECK(grad_norm(grads).item<double>() == doctest::Approx(std::sqrt(squares)).epsilon(1e-7));
  CHECK(grad_norm({}).item<double>() == 0);
}

TEST_CASE("grad_norm neither overflows nor hides a NaN") {
  const auto large = normal({1000}, 1) * 1e25;
  CHECK(grad_norm({large}).isfinite().item<bool>());
  auto broken = normal({1000}, 1);
  broken.mutable_data_ptr<float>()[999] = std::nanf("");
  CHECK(std::isnan(grad_norm({broken}).item<double>()));
}
