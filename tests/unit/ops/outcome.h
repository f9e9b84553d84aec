#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "titan/ops/autograd.h"

// Runs an operator and a reference on the same inputs and compares results and gradients.
namespace titan {

/// What one function gave: its result and the gradient of each floating-point input, undefined for the
/// others.
struct Outcome {
  at::Tensor result;
  std::vector<at::Tensor> grads;
};

using Function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// Normal numbers that depend on the seed only.
inline at::Tensor normal(at::IntArrayRef sizes, unsigned seed, at::ScalarType dtype = at::kFloat) {
  auto values = at::empty(sizes, at::TensorOptions(at::kFloat));
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  for (int64_t i = 0; i < values.numel(); ++i) values.mutable_data_ptr<float>()[i] = distribution(generator);
  return values.to(dtype);
}

/// Integers in [0, bound).
inline at::Tensor integers(at::IntArrayRef sizes, unsigned seed, int64_t bound,
                           at::ScalarType dtype = at::kLong) {
  auto values = at::empty(sizes, at::TensorOptions(at::kLong));
  std::mt19937 generator(seed);
  for (int64_t i = 0; i < values.numel(); ++i) {
    values.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(generator()) % bound;
  }
  return values.to(dtype);
}

/// fn(inputs) and the gradients for a fixed gradient of the result.
inline Outcome outcome(const Function& fn, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const auto& input : inputs) {
    leaves.push_back(input.is_floating_point() ? input.detach().clone().requires_grad_() : input);
  }
  const auto result = fn(leaves);
  backward(result, normal(result.sizes(), 99).to(at::kBFloat16).to(result.scalar_type()));
  Outcome all{result.detach(), {}};
  for (const auto& leaf : leaves) all.grads.push_back(leaf.is_floating_point() ? leaf.grad() : at::Tensor());
  return all;
}

/// Largest difference over largest reference value.
inline double difference(const at::Tensor& given, const at::Tensor& expected) {
  REQUIRE(given.sizes() == expected.sizes());
  if (expected.numel() == 0) return 0;
  const auto gap = (given.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
  const auto size = expected.to(at::kDouble).abs().max().item<double>();
  return std::isfinite(gap) ? gap / (size + 1e-6) : std::numeric_limits<double>::infinity();
}

/// Checks fn in the inputs' dtype against reference in float64; gradients must have their input's dtype.
inline void check_against(const Function& fn, const Function& reference,
                          const std::vector<at::Tensor>& inputs, double bound) {
  std::vector<at::Tensor> wide;
  for (const auto& input : inputs) wide.push_back(input.is_floating_point() ? input.to(at::kDouble) : input);
  const Outcome given = outcome(fn, inputs), expected = outcome(reference, wide);
  CHECK(difference(given.result, expected.result) <= bound);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!expected.grads[i].defined()) continue;
    INFO("gradient ", i);
    REQUIRE(given.grads[i].defined());
    CHECK((given.grads[i].scalar_type() == inputs[i].scalar_type()));
    CHECK(difference(given.grads[i], expected.grads[i]) <= bound);
  }
}

/// Rounding of sums of a few hundred terms, relative to the largest value.
inline constexpr double kFloatBound = 2e-6;
/// One bfloat16 rounding is 2^-8 relative; results and gradients see a few.
inline constexpr double kBf16Bound = 1.2e-2;

inline double bound_of(at::ScalarType dtype) { return dtype == at::kFloat ? kFloatBound : kBf16Bound; }

/// Every bit of both outcomes is the same.
inline bool same_bits(const Outcome& a, const Outcome& b) {
  bool same = a.result.equal(b.result);
  for (size_t i = 0; i < a.grads.size(); ++i)
    same = same && (!a.grads[i].defined() || a.grads[i].equal(b.grads[i]));
  return same;
}

}  // namespace titan
