#include "titan/nki/operation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using namespace titan::nki;

namespace {

constexpr int kLast = static_cast<int>(Operation::arctan);

doctest::Approx near(double value) { return doctest::Approx(value).epsilon(2e-6); }

}  // namespace

TEST_CASE("every operation has a name of its own") {
  std::set<std::string> names;
  for (int i = 0; i <= kLast; ++i) names.insert(std::string(operation_name(static_cast<Operation>(i))));
  CHECK(names.size() == kLast + 1);
  CHECK(operation_name(Operation::add) == "add");
  CHECK(operation_name(Operation::arithmetic_right_shift) == "arithmetic_right_shift");
  CHECK(operation_name(Operation::gelu_apprx_sigmoid) == "gelu_apprx_sigmoid");
  CHECK(operation_name(Operation::arctan) == "arctan");
}

TEST_CASE("operations know what they may be used for") {
  CHECK(is_bitvector(Operation::left_shift));
  CHECK(is_bitvector(Operation::bitwise_not));
  CHECK_FALSE(is_bitvector(Operation::logical_and));
  CHECK(is_unary(Operation::rsqrt));
  CHECK_FALSE(is_unary(Operation::power));
  CHECK(is_activation(Operation::silu));
  CHECK_FALSE(is_activation(Operation::logical_not));
  CHECK(is_reduction(Operation::maximum));
  CHECK(is_reduction(Operation::logical_xor));
  CHECK_FALSE(is_reduction(Operation::divide));
  CHECK_FALSE(is_reduction(Operation::average));
}

TEST_CASE("operations of two floats") {
  CHECK(apply(Operation::subtract, 3.0F, 5.0F) == -2);
  CHECK(apply(Operation::divide, 1.0F, 4.0F) == 0.25F);
  CHECK(apply(Operation::power, 2.0F, 0.5F) == near(std::sqrt(2.0)));
  CHECK(apply(Operation::mod, -7.0F, 3.0F) == 2);
  CHECK(apply(Operation::mod, 7.0F, -3.0F) == -2);
  CHECK(apply(Operation::mod, 6.0F, 3.0F) == 0);
  CHECK(apply(Operation::abs_max, -7.0F, 3.0F) == 7);
  CHECK(apply(Operation::abs_min, -7.0F, -3.0F) == 3);
  CHECK(apply(Operation::average, 1.0F, 4.0F) == 2.5F);
  CHECK(apply(Operation::less, 1.0F, 1.0F) == 0);
  CHECK(apply(Operation::less_equal, 1.0F, 1.0F) == 1);
  CHECK(apply(Operation::not_equal, NAN, NAN) == 1);
  CHECK(apply(Operation::logical_and, 2.0F, 0.0F) == 0);
  CHECK(apply(Operation::logical_or, 2.0F, 0.0F) == 1);
  CHECK(apply(Operation::logical_xor, 2.0F, 1.0F) == 0);
  CHECK(apply(Operation::logical_not, 2.0F) == 0);
}

TEST_CASE("maximum and minimum pass NaNs on from either side") {
  for (Operation op : {Operation::maximum, Operation::minimum}) {
    CHECK(std::isnan(apply(op, NAN, 1.0F)));
    CHECK(std::isnan(apply(op, 1.0F, NAN)));
  }
  CHECK(apply(Operation::maximum, 1.0F, -INFINITY) == 1);
  CHECK(apply(Operation::minimum, 1.0F, -INFINITY) == -INFINITY);
}

TEST_CASE("activation functions have the values of their definitions") {
  // From torch 2.13 in float64 at 0.7: sigmoid, functional.gelu (erf, tanh), silu, softplus, mish,
  // special.erf;
  // *_dx by its autograd.
  const float x = 0.7F;
  CHECK(apply(Operation::sigmoid, x) == near(0.66818776));
  CHECK(apply(Operation::gelu, x) == near(0.5306254318));
  CHECK(apply(Operation::gelu_dx, x) == near(0.9766140955));
  CHECK(apply(Operation::gelu_apprx_tanh, x) == near(0.5305701231));
  CHECK(apply(Operation::gelu_apprx_sigmoid, x) == near(0.53689394));
  CHECK(apply(Operation::silu, x) == near(0.4677314307));
  CHECK(apply(Operation::silu_dx, x) == near(0.8233867788));
  CHECK(apply(Operation::softplus, x) == near(1.103186041));
  CHECK(apply(Operation::mish, x) == near(0.5611483661));
  CHECK(apply(Operation::erf, x) == near(0.6778011856));
  CHECK(apply(Operation::erf_dx, x) == near(0.6912748719));
  CHECK(apply(Operation::tanh, x) == near(std::tanh(0.7)));
  CHECK(apply(Operation::rsqrt, 4.0F) == 0.5F);
  CHECK(apply(Operation::reciprocal, 8.0F) == 0.125F);
  CHECK(apply(Operation::square, -3.0F) == 9);
  CHECK(apply(Operation::relu, -3.0F) == 0);
  CHECK(apply(Operation::sign, -3.0F) == -1);
  CHECK(apply(Operation::sign, 0.0F) == 0);
  CHECK(apply(Operation::abs, -3.0F) == 3);
  CHECK(apply(Operation::copy, -3.0F) == -3);
  CHECK(apply(Operation::arctan, 1.0F) == near(std::atan(1.0)));
  CHECK(apply(Operation::log, 2.0F) == near(std::log(2.0)));
  CHECK(apply(Operation::exp, 1.0F) == near(std::exp(1.0)));
  CHECK(apply(Operation::sqrt, 2.0F) == near(std::sqrt(2.0)));
}

TEST_CASE("activation functions end well for large arguments") {
  CHECK(apply(Operation::softplus, 1000.0F) == 1000);
  CHECK(apply(Operation::softplus, -1000.0F) == 0);
  CHECK(apply(Operation::silu, -1000.0F) == 0);
  CHECK(apply(Operation::silu_dx, -1000.0F) == 0);
  CHECK(apply(Operation::sigmoid, -1000.0F) == 0);
  CHECK(apply(Operation::gelu, 1000.0F) == 1000);
  CHECK(apply(Operation::mish, 1000.0F) == 1000);
}

TEST_CASE("sin beyond pi is a cubic, as in the public simulator") {
  CHECK(apply(Operation::sin, 9.0F) == doctest::Approx(27.65).epsilon(1e-3));
  CHECK(apply(Operation::sin, -9.0F) == doctest::Approx(-27.65).epsilon(1e-3));
  CHECK(apply(Operation::sin, 3.0F) == near(std::sin(3.0F)));
  CHECK(std::isnan(apply(Operation::sin, NAN)));
}

TEST_CASE("integers wrap, truncate and shift") {
  const int32_t most = std::numeric_limits<int32_t>::max(), least = std::numeric_limits<int32_t>::min();
  CHECK(apply(Operation::add, most, 1) == least);
  CHECK(apply(Operation::subtract, least, 1) == most);
  CHECK(apply(Operation::multiply, 1 << 20, 1 << 12) == 0);
  CHECK(apply(Operation::multiply, 16777217, 3) == 50331651);
  CHECK(apply(Operation::divide, -7, 2) == -3);
  CHECK(apply(Operation::divide, 7, 0) == 0);
  CHECK(apply(Operation::divide, least, -1) == least);
  CHECK(apply(Operation::mod, -7, 3) == 2);
  CHECK(apply(Operation::mod, least, -1) == 0);
  CHECK(apply(Operation::abs, least, 0) == least);
  CHECK(apply(Operation::left_shift, 1, 31) == least);
  CHECK(apply(Operation::left_shift, 1, 32) == 0);
  CHECK(apply(Operation::right_shift, -1, 28) == 15);
  CHECK(apply(Operation::arithmetic_right_shift, -16, 2) == -4);
  CHECK(apply(Operation::arithmetic_right_shift, -16, 40) == -1);
  CHECK(apply(Operation::bitwise_xor, 6, 3) == 5);
  CHECK(apply(Operation::bitwise_not, 0, 0) == -1);
  CHECK(apply(Operation::less, -1, 0) == 1);
  CHECK(apply(Operation::less, 0xFFFFFFFFU, 0U) == 0);
  CHECK(apply(Operation::maximum, 0xFFFFFFFFU, 0U) == 0xFFFFFFFFU);
}

TEST_CASE("rows give the same numbers as single elements, whichever operand is a number") {
  std::vector<float> a, b, result(37);
  for (int i = 0; i < 37; ++i) {
    a.push_back(0.3F * static_cast<float>(i) - 4);
    b.push_back(2 - 0.7F * static_cast<float>(i));
  }
  const auto same = [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  for (int i = 1; i <= kLast; ++i) {
    const auto op = static_cast<Operation>(i);
    if (is_bitvector(op)) continue;
    CAPTURE(operation_name(op));
    apply(op, a.data(), b.data(), result.data(), 37);
    for (size_t k = 0; k < a.size(); ++k) REQUIRE(same(result[k], apply(op, a[k], b[k])));
    apply(op, a.data(), 1.5F, result.data(), 37);
    for (size_t k = 0; k < a.size(); ++k) REQUIRE(same(result[k], apply(op, a[k], 1.5F)));
    apply(op, 1.5F, b.data(), result.data(), 37);
    for (size_t k = 0; k < a.size(); ++k) REQUIRE(same(result[k], apply(op, 1.5F, b[k])));
    result = a;
    apply(op, result.data(), b.data(), result.data(), 37);
    for (size_t k = 0; k < a.size(); ++k) REQUIRE(same(result[k], apply(op, a[k], b[k])));
  }
}

TEST_CASE("a reduction goes through the elements in order") {
  const std::vector<float> values = {1e8F, 1, -1e8F, 1};
  CHECK(reduce(Operation::add, 0, values.data(), 4) == 1);
  CHECK(reduce(Operation::maximum, -INFINITY, values.data(), 4) == 1e8F);
  CHECK(reduce(Operation::subtract, 10, values.data() + 1, 1) == 9);
}

TEST_CASE("an operation that has no meaning on the type is our own mistake") {
  CHECK_THROWS_AS(apply(Operation::bitwise_and, 1.0F, 2.0F), std::logic_error);
  CHECK_THROWS_AS(apply(Operation::exp, 1, 2), std::logic_error);
  CHECK_THROWS_AS(apply(Operation::none, 1.0F, 2.0F), std::logic_error);
}
