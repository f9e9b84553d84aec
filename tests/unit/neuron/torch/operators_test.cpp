#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "neuron_device.h"
#include "titan/base/error.h"
#include "titan/ops/autograd.h"

namespace titan {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// A calculation on whatever device its tensors are on.
struct Case {
  std::string name;
  std::function<Tensors(const Tensors&)> run;
  bool differentiable = true;  ///< in the first two inputs, through the first output
};

/// Floats of two shapes that broadcast, indices, a mask and positive numbers: what the cases pick from.
Tensors host_inputs(at::ScalarType dtype) {
  at::manual_seed(7);
  const auto floats = at::TensorOptions(dtype);
  return {at::randn({3, 5, 8}, floats),        at::randn({5, 8}, floats),
          at::tensor({4, 0, 2, 2}, at::kLong), at::randn({3, 5, 8}) > 0,
          at::rand({3, 5, 8}, floats) + 0.5,   at::randn({8, 6}, floats)};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"abs", [](auto& t) -> Tensors { return {t[0].abs()}; }},
      {"isfinite", [](auto& t) -> Tensors { return {t[0].div(t[1].round()).isfinite()}; }, false},
      {"logical_not", [](auto& t) -> Tensors { return {t[3].logical_not(), t[0].logical_not()}; }, false},
      {"arange",
       [](auto& t) -> Tensors {
         return {at::arange(2, 17, 3, t[0].options()), at::arange(9, t[2].options())};
       },
       false},
      {"view_as_complex",
       [](auto& t) -> Tensors {
         return {at::view_as_real(at::view_as_complex(t[0].to(at::kFloat).reshape({3, 5, 4, 2})) *
                                  at::view_as_complex(t[1].to(at::kFloat).reshape({5, 4, 2})))};
       }},
      {"index_put_",
       [](auto& t) -> Tensors {
         return {t[0].clone().index_put_({std::nullopt, t[2]}, t[1].narrow(0, 0, 4),
                                         /*accumulate=*/true)};
       }},
      {"index",
       [](auto& t) -> Tensors { return {t[0].index({at::indexing::Slice(), t[2]}), t[1].index({t[2]})}; }},
      {"index with a mask", [](auto& t) -> Tensors { return {t[0].index({t[3]})}; }},
      {"index_select", [](auto& t) -> Tensors { return {t[0].index_select(1, t[2])}; }},
      {"index_add", [](auto& t) -> Tensors { return {t[1].index_add(0, t[2], t[1].narrow(0, 0, 4))}; }},
      {"gather", [](auto& t) -> Tensors { return {t[0].gather(1, t[2].view({1, 4, 1}).expand({3, 4, 8}))}; }},
      {"scatter_add",
       [](auto& t) -> Tensors {
         return {t[0].scatter_add(1, t[2].view({1, 4, 1}).expand({3, 4, 8}), t[0].narrow(1, 0, 4))};
       }},
      {"embedding", [](auto& t) -> Tensors { return {at::embedding(t[1], t[2])}; }},
      {"cat", [](auto& t) -> Tensors { return {at::cat({t[0], t[1].unsqueeze(0), t[0]}, 0)}; }},
      {"stack", [](auto& t) -> Tensors { return {at::stack({t[1], t[1] * 2}, 1)}; }},
      {"split and chunk",
       [](auto& t) -> Tensors { return {t[0].split(2, 1)[2] + t[0].chunk(5, 1)[0], t[0].unbind(0)[1]}; }},
      {"sort",
       [](auto& t) -> Tensors {
         auto [values, indices] = t[0].sort(-1, /*descending=*/true);
         return {values, indices};
       }},
      {"topk",
       [](auto& t) -> Tensors {
         auto [values, indices] = t[0].topk(3, 1);
         return {values, indices};
       }},
      {"where", [](auto& t) -> Tensors { return {at::where(t[3], t[0], t[1])}; }},
      {"masked_fill", [](auto& t) -> Tensors { return {t[0].masked_fill(t[3], -2.5)}; }},
      {"add, mul, sub, div", [](auto& t) -> Tensors { return {(t[0] + t[1]) * t[0] - t[1] / t[4]}; }},
      {"pow, sqrt, rsqrt", [](auto& t) -> Tensors { return {t[0].pow(2) + t[4].sqrt() * t[4].rsqrt()}; }},
      {"exp, log, sin, cos",
       [](auto& t) -> Tensors { return {t[0].exp() + t[4].log() + t[1].sin() * t[1].cos()}; }},
      {"silu, gelu, sigmoid, tanh",
       [](auto& t) -> Tensors { return {at::silu(t[0]) + at::gelu(t[0]) + t[1].sigmoid() + t[1].tanh()}; }},
      {"clamp, minimum, maximum",
       [](auto& t) -> Tensors { return {at::maximum(t[0].clamp(-1, 1), t[1]), at::minimum(t[0], t[1])}; }},
      {"sum, mean, amax",
       [](auto& t) -> Tensors { return {t[0].sum({0, 2}) + t[0].mean(), t[0].amax(1), t[0].sum()}; }},
      {"max, argmax, all, any",
       [](auto& t) -> Tensors {
         auto [values, indices] = t[0].max(2);
         return {values, indices, t[0].argmax(1), t[3].all(), t[3].any(0)};
       }},
      {"cumsum, prod", [](auto& t) -> Tensors { return {t[0].cumsum(1), t[4].prod(2)}; }},
      {"norm, var", [](auto& t) -> Tensors { return {t[0].norm(2, {1}), t[0].var(1)}; }},
      {"softmax, log_softmax", [](auto& t) -> Tensors { return {t[0].softmax(1), t[0].log_softmax(-1)}; }},
      {"layer_norm", [](auto& t) -> Tensors { return {at::layer_norm(t[0], {5, 8}, t[1], t[1])}; }},
      {"rms_norm", [](auto& t) -> Tensors { return {at::rms_norm(t[0], {5, 8}, t[1], 1e-5)}; }},
      {"matmul", [](auto& t) -> Tensors { return {t[0].matmul(t[5]), t[1].mm(t[5])}; }},
      {"bmm, addmm",
       [](auto& t) -> Tensors { return {t[0].bmm(t[0].mT()), at::addmm(t[1].narrow(1, 0, 6), t[1], t[5])}; }},
      {"linear", [](auto& t) -> Tensors { return {at::linear(t[0], t[1])}; }},
      {"scaled_dot_product_attention",
       [](auto& t) -> Tensors {
         const auto q = t[0].unsqueeze(0), k = t[0].unsqueeze(0) * 2;
         return {at::scaled_dot_product_attention(q, k, q, {}, 0.0, /*is_causal=*/true)};
       }},
      {"cross_entropy",
       [](auto& t) -> Tensors { return {at::cross_entropy_loss(t[1].narrow(0, 0, 4).contiguous(), t[2])}; }},
      {"transpose, contiguous, flip, roll",
       [](auto& t) -> Tensors { return {t[0].transpose(0, 2).contiguous().flip({1}), t[0].roll(2, 1)}; }},
      {"tril, triu, diagonal",
       [](auto& t) -> Tensors { return {t[0].tril() + t[0].triu(1), t[0].diagonal()}; }},
      {"repeat, expand, pad",
       [](auto& t) -> Tensors {
         return {t[1].repeat({2, 1}), t[1].expand({3, 5, 8}), at::constant_pad_nd(t[0], {1, 2}, 0.5)};
       }},
      {"to another dtype and back",
       [](auto& t) -> Tensors { return {t[0].to(at::kBFloat16).to(t[0].scalar_type()), t[0].to(at::kInt)}; }},
      {"eq, lt, ge, bitwise",
       [](auto& t) -> Tensors { return {t[0].lt(t[1]), t[2].eq(2), t[2].bitwise_and(3), t[0].ge(0)}; },
       false},
      {"unfold, as_strided",
       [](auto& t) -> Tensors { return {t[0].unfold(2, 3, 2), t[0].as_strided({2, 3}, {1, 8}, 4)}; }},
      {"zeros_like, full_like, ones, eye",
       [](auto& t) -> Tensors {
         return {at::zeros_like(t[0]), at::full_like(t[1], 3), at::ones({2, 3}, t[0].options()),
                 at::eye(4, t[0].options())};
       },
       false},
      {"nonzero, unique, bincount",
       [](auto& t) -> Tensors { return {t[3].nonzero(), std::get<0>(at::_unique2(t[2])), t[2].bincount()}; },
       false},
      {"_foreach_add, _foreach_mul_",
       [](auto& t) -> Tensors {
         Tensors both = at::_foreach_add({t[0], t[1]}, 1.5);
         at::_foreach_mul_(both, 2);
         return both;
       },
       false},
  };
  return all;
}

Tensors on(const Tensors& inputs, at::Device device, bool differentiable) {
  Tensors moved;
  for (const Tensor& input : inputs) moved.push_back(input.to(device).clone());
  for (const size_t i : {0, 1}) moved[i].set_requires_grad(differentiable);
  return moved;
}

void check_same(const Tensor& on_neuron, const Tensor& on_cpu) {
  REQUIRE(on_neuron.defined() == on_cpu.defined());
  if (!on_cpu.defined()) return;
  CHECK(on_neuron.is_privateuseone());
  REQUIRE((on_neuron.scalar_type() == on_cpu.scalar_type()));
  REQUIRE(on_neuron.sizes() == on_cpu.sizes());
  CHECK(on_neuron.strides() == on_cpu.strides());
  // NaN equals NaN here: the bits count.
  CHECK(at::allclose(on_neuron.cpu(), on_cpu, /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true));
}

void compare(const Case& test, at::ScalarType dtype) {
  CAPTURE(test.name);
  const Tensors host = host_inputs(dtype);
  const Tensors there = on(host, neuron(), test.differentiable),
                here = on(host, at::kCPU, test.differentiable);
  const Tensors results = test.run(there), expected = test.run(here);
  REQUIRE(results.size() == expected.size());
  for (size_t i = 0; i < results.size(); ++i) check_same(results[i], expected[i]);
  if (!test.differentiable) return;
  const Tensor weights = at::randn(expected[0].sizes(), expected[0].options());
  backward((results[0] * weights.to(neuron())).sum());
  backward((expected[0] * weights).sum());
  for (const size_t i : {0, 1}) check_same(there[i].grad(), here[i].grad());
}

}  // namespace

TEST_CASE("operators give the CPU's bits, forward and backward") {
  neuron();
  for (const Case& test : cases()) compare(test, at::kFloat);
}

TEST_CASE("operators give the CPU's bits in bfloat16") {
  neuron();
  for (const Case& test : cases()) compare(test, at::kBFloat16);
}

TEST_CASE(
    "random numbers are those of the CPU for the same seed, and a generator of the device can be given") {
  const auto options = at::TensorOptions(neuron());
  at::manual_seed(3);
  const Tensor there = at::randn({50}, options), permuted = at::randperm(20, options);
  at::manual_seed(3);
  CHECK(there.cpu().equal(at::randn({50})));
  CHECK(permuted.cpu().equal(at::randperm(20)));

  auto generator =
      at::globalContext().getAcceleratorHooksInterface(c10::DeviceType::PrivateUse1).getNewGenerator(0);
  generator.set_current_seed(11);
  const Tensor first = at::rand({8}, generator, options);
  const auto state = generator.get_state();
  const Tensor second = at::rand({8}, generator, options);
  generator.set_state(state);
  CHECK(at::rand({8}, generator, options).equal(second));
  CHECK_FALSE(first.equal(second));
  CHECK_THROWS_WITH_AS(at::rand({8}, at::detail::createCPUGenerator(), options).sum(),
                       doctest::Contains("generator of cpu"), std::exception);
}

TEST_CASE("an operator without a CPU kernel is an error that names it") {
  const Tensor a = at::ones({2, 2}, at::TensorOptions(neuron()));
  CHECK_THROWS_WITH_AS(at::_cudnn_rnn_flatten_weight({a}, 1, 2, 0, 2, 0, 1, false, false),
                       doctest::Contains("aten::_cudnn_rnn_flatten_weight"), std::exception);
}

TEST_CASE("tensors of two devices in one call are refused, but for numbers and indices") {
  const Tensor there = at::ones({3}, at::TensorOptions(neuron()));
  CHECK_THROWS_WITH_AS(there.add(at::ones({3})), doctest::Contains("aten::add.Tensor"), ValueError);
  CHECK_THROWS_WITH_AS(at::ones({3}).add(there), doctest::Contains("cpu"), ValueError);
  CHECK_THROWS_WITH_AS(at::cat({there, at::ones({3})}), doctest::Contains("aten::cat"), ValueError);
  CHECK(there.add(at::scalar_tensor(2.0)).cpu().equal(at::full({3}, 3.0)));
  CHECK(there.index({at::tensor({0, 2}, at::kLong)}).numel() == 2);
}

}  // namespace titan
