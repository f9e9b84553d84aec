#include "titan/ops/gradcheck.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>

#include <cmath>
#include <set>

#include "tests/unit/ops/outcome.h"
#include "tests/unit/ops/small_kernels.h"
#include "titan/base/error.h"

namespace titan::testing {
namespace {

using at::Tensor;
using Inputs = std::vector<Tensor>;

/// x · y with a backward that is wrong by `error` at one element of y's gradient.
Tensor product_with_error(const Inputs& in, double error) {
  Backward backward{.name = "test::product", .inputs = {in[0], in[1]}, .saved = {in[0], in[1]}};
  backward.fn = [error](const GradientCall& call) -> std::vector<Tensor> {
    Tensor grad_y = call.grad_outputs[0] * call.saved[0];
    grad_y.select(0, 1).select(0, 2).add_(error);
    return {call.grad_outputs[0] * call.saved[1], grad_y};
  };
  return differentiable(std::move(backward), [&] { return in[0] * in[1]; });
}

Inputs two_leaves(at::ScalarType dtype) {
  return {normal({3, 4}, 1, dtype).requires_grad_(), normal({3, 4}, 2, dtype).requires_grad_()};
}

TEST_CASE("Right gradients pass, in float64 and float32") {
  const auto curve = [](const Inputs& in) { return Inputs{in[0].exp() * in[1], in[0].sin()}; };
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    const GradcheckResult result = gradcheck(curve, two_leaves(dtype));
    CHECK(result.passed);
    CHECK(result.max_difference <= result.allowed);
    CHECK(std::abs(result.analytical - result.numerical) == result.max_difference);
  }
}

TEST_CASE("A wrong gradient is reported with its input, its element and both numbers") {
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    const auto wrong = [](const Inputs& in) { return product_with_error(in, 0.25); };
    const GradcheckResult result = gradcheck(wrong, two_leaves(dtype), {.raise_exception = false});
    CHECK_FALSE(result.passed);
    CHECK(result.input == 1);
    CHECK(result.element == std::vector<int64_t>{1, 2});
    CHECK(std::abs(result.max_difference - 0.25) < 1e-3);
    CHECK(std::abs(result.analytical - result.numerical - 0.25) < 1e-3);
    CHECK(mentions(error_of([&] { gradcheck(wrong, two_leaves(dtype)); }),
                   {"gradcheck: input 1 at [1, 2]: the backward gives ", "differences give "}));
    CHECK(gradcheck([](const Inputs& in) { return product_with_error(in, 0); }, two_leaves(dtype)).passed);
  }
}

TEST_CASE("A gradient that is missing counts as zero, and NaN as wrong") {
  const auto detached = [](const Inputs& in) { return in[0] + in[1].detach() * 3; };
  CHECK(mentions(error_of([&] { gradcheck(detached, two_leaves(at::kDouble)); }), {"input 1", "gives 0,"}));
  const auto nan = [](const Inputs& in) { return product_with_error(in, std::nan("")); };
  CHECK(mentions(error_of([&] { gradcheck(nan, two_leaves(at::kDouble)); }), {"input 1 at [1, 2]", "nan"}));
}

TEST_CASE("Inputs that require no gradient are left out, and no input is changed") {
  Inputs inputs = {normal({3, 4}, 1, at::kDouble).requires_grad_(), normal({3, 4}, 2, at::kDouble)};
  const Inputs before = {inputs[0].detach().clone(), inputs[1].clone()};
  const auto wrong_for_second = [](const Inputs& in) { return product_with_error(in, 1); };
  CHECK(gradcheck(wrong_for_second, inputs).passed);
  CHECK(inputs[0].equal(before[0]));
  CHECK(inputs[1].equal(before[1]));
  CHECK_FALSE(inputs[0].grad().defined());
}

TEST_CASE("Of a large input a share of the elements is compared") {
  int64_t calls = 0;
  const auto counted = [&](const Inputs& in) {
    ++calls;
    return in[0] * 2;
  };
  gradcheck(counted, {normal({50, 4}, 1, at::kDouble).requires_grad_()}, {.max_elements = 10});
  CHECK(calls == 2 + 2 * 10);
}

TEST_CASE("The elements that are compared are spread over the whole input") {
  const Tensor input = normal({32}, 1, at::kDouble).requires_grad_();
  std::set<int64_t> moved;
  const auto watched = [&](const Inputs& in) {
    const Tensor changed = in[0].detach().ne(input.detach());
    for (int64_t i = 0; i < 32; ++i) {
      if (changed[i].item<bool>()) moved.insert(i);
    }
    return in[0] * 2;
  };
  gradcheck(watched, {input}, {.max_elements = 20});
  CHECK(moved.size() == 20);
  CHECK(*moved.rbegin() == 30);
}

TEST_CASE("A step that would be lost in a large number grows with it") {
  const Inputs large = {(normal({2, 3}, 1) * 1e6).requires_grad_()};
  CHECK(gradcheck([](const Inputs& in) { return in[0] * 3; }, large).passed);
  CHECK(gradcheck([](const Inputs& in) { return in[0] * in[0] * 1e-6; }, large).passed);
  CHECK(
      mentions(error_of([&] { gradcheck([](const Inputs& in) { return in[0] * 3; }, large, {.eps = 1e-9}); }),
               {"a step of ", "is lost in Float", "larger eps"}));
}

TEST_CASE("Without a result to take a gradient of there is an error") {
  const Inputs leaves = two_leaves(at::kDouble);
  const auto error = [&](const GradcheckFunction& fn) { return error_of([&] { gradcheck(fn, leaves); }); };
  CHECK(mentions(error([](const Inputs&) { return Inputs{}; }), {"returns nothing"}));
  CHECK(mentions(error([](const Inputs& in) { return Inputs{in[0] * 2, Tensor()}; }),
                 {"result 1 is an undefined tensor"}));
  CHECK(mentions(error([](const Inputs& in) { return Inputs{in[0].detach() * 2}; }),
                 {"nothing was recorded", "none of the 1 result(s) requires a gradient"}));
}

TEST_CASE("Options that would let anything pass are refused") {
  const auto twice = [](const Inputs& in) { return in[0] * 2; };
  const auto error = [&](GradcheckOptions options) {
    return error_of([&] { gradcheck(twice, two_leaves(at::kDouble), options); });
  };
  CHECK(mentions(error({.atol = -1}), {"atol must be a positive number", "got -1"}));
  CHECK(mentions(error({.rtol = std::nan("")}), {"rtol must be", "got nan"}));
  CHECK(mentions(error({.eps = -1e-3}), {"eps must be", "got -0.001"}));
  CHECK(mentions(error({.max_elements = 0}), {"max_elements must be 1 or more, got 0"}));
}

TEST_CASE("A function that differs from call to call is refused") {
  double factor = 1;
  const auto changing = [&](const Inputs& in) { return in[0] * (factor += 0.5); };
  CHECK(mentions(error_of([&] { gradcheck(changing, {normal({2}, 1, at::kDouble).requires_grad_()}); }),
                 {"not deterministic", "input 0"}));
}

TEST_CASE("Without an input that can be checked there is an error") {
  const auto twice = [](const Inputs& in) { return in[0] * 2; };
  CHECK(mentions(error_of([&] { gradcheck(twice, {normal({2}, 1)}); }),
                 {"none of the 1 input(s)", "requires_grad_"}));
  CHECK(mentions(error_of([&] { gradcheck(twice, {normal({2}, 1, at::kBFloat16).requires_grad_()}); }),
                 {"input 0 is BFloat16", "float32"}));
}

}  // namespace
}  // namespace titan::testing
