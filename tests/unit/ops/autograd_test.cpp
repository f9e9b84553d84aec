#include "titan/ops/autograd.h"

#include <ATen/ops/ones.h>

#include <string>

#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"

using namespace titan;
using at::Tensor;

namespace {

/// x · y with a hand-written backward that records which gradients it was asked for.
Tensor product(const Tensor& x, const Tensor& y, std::vector<uint8_t>* asked = nullptr) {
  Backward backward{.name = "test::product", .inputs = {x, y}, .saved = {x, y}};
  backward.fn = [asked](const GradientCall& call) -> std::vector<Tensor> {
    if (asked) asked->assign(call.needs_grad.begin(), call.needs_grad.end());
    const Tensor& grad = call.grad_outputs[0];
    return {call.needs_grad[0] ? grad * call.saved[1] : Tensor(),
            call.needs_grad[1] ? grad * call.saved[0] : Tensor()};
  };
  return differentiable(std::move(backward), [&] { return x * y; });
}

Tensor leaf(double value) { return at::ones({3}).mul_(value).requires_grad_(); }

std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a hand-written backward gives its inputs their gradients") {
  const auto x = leaf(2), y = leaf(5);
  backward(product(x, y).sum());
  CHECK(x.grad().equal(y.detach()));
  CHECK(y.grad().equal(x.detach()));
}

TEST_CASE("a backward is told which gradients are wanted") {
  std::vector<uint8_t> asked;
  const auto x = leaf(2), frozen = at::ones({3});
  backward(product(x, frozen, &asked).sum());
  CHECK(asked == std::vector<uint8_t>{1, 0});
}

TEST_CASE("nothing is recorded without gradients or without an input that needs one") {
  const auto x = leaf(2);
  {
    const NoGrad guard;
    CHECK_FALSE(product(x, x).requires_grad());
  }
  CHECK_FALSE(product(at::ones({3}), at::ones({3})).requires_grad());
}

TEST_CASE("changing a saved tensor in place before the backward is an error") {
  const auto x = leaf(2), y = leaf(5);
  const auto shifted = x + 0;
  const auto out = product(shifted, y);
  {
    const NoGrad guard;
    shifted.add_(1);
  }
  CHECK(message_of([&] { backward(out.sum()); }).find("modified by an inplace operation") !=
        std::string::npos);
}

TEST_CASE("a second backward through a freed graph and a second derivative are refused") {
  const auto x = leaf(2);
  const auto out = product(x, x).sum();
  backward(out);
  CHECK(message_of([&] { backward(out); }).find("second time") != std::string::npos);
  const auto again = product(x, x).sum();
  const auto twice = message_of([&] { again.backward({}, /*retain_graph=*/true, /*create_graph=*/true); });
  CHECK(twice.find("test::product has no second derivative") != std::string::npos);
}

TEST_CASE("an identity function returns an alias whose backward runs") {
  const auto x = leaf(2);
  bool ran = false;
  Backward backward_of{.name = "test::identity", .inputs = {x}};
  backward_of.fn = [&](const GradientCall& call) {
    ran = true;
    return std::vector{call.grad_outputs[0] * 3};
  };
  const auto out = differentiable(std::move(backward_of), [&] { return x; });
  CHECK(out.data_ptr() == x.data_ptr());
  CHECK_FALSE(out.is_same(x));
  backward(out.sum());
  CHECK(ran);
  CHECK(x.grad().equal(at::ones({3}) * 3));
}

TEST_CASE("an output that was saved reaches the backward and does not keep its own graph alive") {
  const auto x = leaf(2);
  const auto exponential = [&] {
    Backward backward_of{.name = "test::exp", .inputs = {x}, .saved_outputs = {0}};
    backward_of.fn = [](const GradientCall& call) {
      return std::vector{call.grad_outputs[0] * call.saved[0]};
    };
    return differentiable(std::move(backward_of), [&] { return x.exp(); });
  };
  backward(exponential().sum());
  CHECK(x.grad().allclose(x.detach().exp()));
  c10::weak_intrusive_ptr<c10::TensorImpl> never_used(exponential().getIntrusivePtr());
  CHECK(never_used.expired());
}

TEST_CASE("outputs without a gradient do not require one") {
  const auto x = leaf(2);
  Backward backward_of{.name = "test::pair", .inputs = {x}, .num_differentiable = 1};
  backward_of.fn = [](const GradientCall& call) { return std::vector{call.grad_outputs[0]}; };
  const auto outputs =
      differentiable(std::move(backward_of), [&] { return std::vector<Tensor>{x.clone(), x.clone()}; });
  CHECK(outputs[0].requires_grad());
  CHECK_FALSE(outputs[1].requires_grad());
}

TEST_CASE("gradient hooks run in order, after the gradient was added, each time") {
  const auto x = leaf(2);
  std::string calls;
  double seen = 0;
  on_grad_ready(x, [&](const Tensor& parameter) {
    calls += "a";
    seen = parameter.grad().sum().item<double>();
  });
  on_grad_ready(x, [&](const Tensor&) { calls += "b"; });
  backward((x * 2).sum());
  CHECK(seen == 6);
  backward((x * 2).sum());
  CHECK(seen == 12);
  CHECK(calls == "abab");
}
