#include <doctest/doctest.h>

#include "lanes.h"

using namespace titan::nki;
using namespace titan::nki::lanes;

namespace {

struct FunctionCase {
  Operation op;
  std::function<double(double)> function;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }
constexpr double kPi = 3.14159265358979323846;

const std::vector<FunctionCase>& function_cases() {
  static const std::vector<FunctionCase> cases = {
      {Operation::copy, [](double x) { return x; }},
      {Operation::square, [](double x) { return x * x; }},
      {Operation::sigmoid, sigmoid},
      {Operation::relu, [](double x) { return std::max(x, 0.0); }},
      {Operation::gelu, [](double x) { return x * normal(x); }},
      {Operation::gelu_dx,
       [](double x) { return normal(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi); }},
      {Operation::gelu_apprx_sigmoid, [](double x) { return x * sigmoid(1.702 * x); }},
      {Operation::gelu_apprx_tanh,
       [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x))); }},
      {Operation::silu, [](double x) { return x * sigmoid(x); }},
      {Operation::silu_dx, [](double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }},
      {Operation::tanh, [](double x) { return std::tanh(x); }},
      {Operation::softplus, [](double x) { return std::log1p(std::exp(x)); }},
      {Operation::mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {Operation::erf, [](double x) { return std::erf(x); }},
      {Operation::erf_dx, [](double x) { return 2 / std::sqrt(kPi) * std::exp(-x * x); }},
      {Operation::exp, [](double x) { return std::exp(x); }},
      {Operation::sin, [](double x) { return std::sin(x); }},
      {Operation::arctan, [](double x) { return std::atan(x); }},
      {Operation::sign, [](double x) { return x > 0   ? 1.0
                                              : x < 0 ? -1.0
                                                      : 0.0; }},
      {Operation::abs, [](double x) { return std::fabs(x); }},
      {Operation::reciprocal, [](double x) { return 1 / x; }},
  };
  return cases;
}

const std::vector<FunctionCase>& positive_cases() {
  static const std::vector<FunctionCase> cases = {
      {Operation::log, [](double x) { return std::log(x); }},
      {Operation::sqrt, [](double x) { return std::sqrt(x); }},
      {Operation::rsqrt, [](double x) { return 1 / std::sqrt(x); }},
  };
  return cases;
}

/// A few roundings of float32, of numbers up to about 20.
void check_near(const Floats& got, const Floats& inputs, const std::function<double(double)>& function) {
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == doctest::Approx(function(double{inputs[i]})).epsilon(1e-6).scale(1.0));
  }
}

}  // namespace

TEST_CASE("activation evaluates each function") {
  on_core([] {
    const Tensor x = drawn(tile({4, 31}), 1), magnitude = tile({4, 31}), out = tile({4, 31});
    for (const FunctionCase& each : function_cases()) {
      CAPTURE(operation_name(each.op));
      nisa::activation(out, each.op, x);
      check_near(values(out), values(x), each.function);
    }
    nisa::activation(magnitude, Operation::abs, x);
    for (const FunctionCase& each : positive_cases()) {
      CAPTURE(operation_name(each.op));
      nisa::activation(out, each.op, magnitude);
      check_near(values(out), values(magnitude), each.function);
    }
  });
}

TEST_CASE("activation scales before it adds the bias, each a number or one a partition") {
  on_core([] {
    for (const Layout& layout : layouts()) {
      for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16, Dtype::float16}) {
        CAPTURE(layout.name);
        const Tensor x = drawn(layout.make(dtype, Buffer::psum), 2);
        const Tensor bias = drawn(tile({layout.partitions, 1}, Dtype::bfloat16), 3);
        const Tensor scale = drawn(tile({layout.partitions, 1}), 4);
        const Tensor out = layout.make(dtype, Buffer::sbuf);
        nisa::activation(out, Operation::copy, x, {.bias = bias, .scale = scale});
        const Floats in = values(x), b = values(bias), s = values(scale);
        Floats expected(in.size());
        for (size_t i = 0; i < in.size(); ++i) expected[i] = rounded(in[i] * s[i / 15] + b[i / 15], dtype);
        CHECK(values(out) == expected);
        nisa::activation(out, Operation::copy, x, {.bias = 0.75, .scale = -2.5});
        for (size_t i = 0; i < in.size(); ++i) expected[i] = rounded(in[i] * -2.5F + 0.75F, dtype);
        CHECK(values(out) == expected);
      }
    }
  });
}

TEST_CASE("activation without a bias adds none: negative zeros stay") {
  on_core([] {
    const Tensor x = tile_of({1, 2}, {-0.0F, 0.0F}), out = tile({1, 2});
    nisa::activation(out, Operation::copy, x);
    CHECK(std::signbit(values(out)[0]));
    CHECK_FALSE(std::signbit(values(out)[1]));
  });
}

TEST_CASE("activation_reduce also sums what it writes, before its rounding") {
  on_core([] {
    const Tensor x = drawn(tile({70, 2, 9}), 5), out = tile({70, 2, 9}, Dtype::bfloat16);
    const Tensor sums = tile({70, 1}, Dtype::float32, Buffer::psum);
    nisa::activation_reduce(out, Operation::square, x, Operation::add, sums, {.scale = 0.5});
    const Floats in = values(x);
    Floats expected(in.size()), total(70);
    for (size_t i = 0; i < in.size(); ++i) {
      const float square = (in[i] * 0.5F) * (in[i] * 0.5F);
      expected[i] = rounded(square, Dtype::bfloat16);
      total[i / 18] = i % 18 == 0 ? square : total[i / 18] + square;
    }
    CHECK(values(out) == expected);
    CHECK(values(sums) == total);
  });
}
