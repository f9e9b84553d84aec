#include "titan/nki/operation.h"

#include <algorithm>
#include <cmath>

#include "titan/base/error.h"
#include "titan/nki/vector_loops.h"

namespace titan::nki {
namespace {

constexpr std::string_view kOperationNames[] = {"none",
                                                "add",
                                                "subtract",
                                                "multiply",
                                                "divide",
                                                "maximum",
                                                "minimum",
                                                "power",
                                                "mod",
                                                "abs_max",
                                                "abs_min",
                                                "average",
                                                "equal",
                                                "not_equal",
                                                "less",
                                                "less_equal",
                                                "greater",
                                                "greater_equal",
                                                "logical_and",
                                                "logical_or",
                                                "logical_xor",
                                                "bitwise_and",
                                                "bitwise_or",
                                                "bitwise_xor",
                                                "left_shift",
                                                "right_shift",
                                                "arithmetic_right_shift",
                                                "logical_not",
                                                "bitwise_not",
                                                "abs",
                                                "copy",
                                                "square",
                                                "sigmoid",
                                                "relu",
                                                "gelu",
                                                "gelu_dx",
                                                "gelu_apprx_tanh",
                                                "gelu_apprx_sigmoid",
                                                "silu",
                                                "silu_dx",
                                                "tanh",
                                                "softplus",
                                                "mish",
                                                "erf",
                                                "erf_dx",
                                                "exp",
                                                "log",
                                                "sqrt",
                                                "rsqrt",
                                                "reciprocal",
                                                "sign",
                                                "sin",
                                                "arctan"};

constexpr float kPi = 3.14159265358979323846F;
constexpr float kSqrtHalf = 0.70710678118654752440F;
constexpr float kInverseSqrtTwoPi = 0.39894228040143267794F;
constexpr float kTwoOverSqrtPi = 1.12837916709551257390F;
constexpr float kSqrtTwoOverPi = 0.79788456080286535588F;

float sigmoid_of(float x) { return 1 / (1 + std::exp(-x)); }
float softplus_of(float x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }
float normal_cdf(float x) { return 0.5F * (1 + std::erf(x * kSqrtHalf)); }

float sin_of(float x) {
  if (!(std::fabs(x) > kPi)) return std::sin(x);
  const float beyond = std::fabs(x) - kPi;
  return std::copysign(1.0F, x) * (beyond * beyond * beyond / 6 - beyond);
}

float mod_of(float a, float b) {
  const float rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Ternaries that vector units have; a NaN on either side is the result.
float maximum_of(float a, float b) { return a > b || a != a ? a : b; }
float minimum_of(float a, float b) { return a < b || a != a ? a : b; }

/// Calls `visit` with the function of floats behind an operation, so that loops are compiled for each.
template <class Visit>
decltype(auto) with_function(Operation operation, Visit visit) {
  using F = float;
  switch (operation) {
    case Operation::add:
      return visit([](F a, F b) { return a + b; });
    case Operation::subtract:
      return visit([](F a, F b) { return a - b; });
    case Operation::multiply:
      return visit([](F a, F b) { return a * b; });
    case Operation::divide:
      return visit([](F a, F b) { return a / b; });
    case Operation::maximum:
      return visit([](F a, F b) { return maximum_of(a, b); });
    case Operation::minimum:
      return visit([](F a, F b) { return minimum_of(a, b); });
    case Operation::power:
      return visit([](F a, F b) { return std::pow(a, b); });
    case Operation::mod:
      return visit(mod_of);
    case Operation::abs_max:
      return visit([](F a, F b) { return maximum_of(std::fabs(a), std::fabs(b)); });
    case Operation::abs_min:
      return visit([](F a, F b) { return minimum_of(std::fabs(a), std::fabs(b)); });
    case Operation::average:
      return visit([](F a, F b) { return (a + b) * 0.5F; });
    case Operation::equal:
      return visit([](F a, F b) { return a == b ? 1.0F : 0.0F; });
    case Operation::not_equal:
      return visit([](F a, F b) { return a != b ? 1.0F : 0.0F; });
    case Operation::less:
      return visit([](F a, F b) { return a < b ? 1.0F : 0.0F; });
    case Operation::less_equal:
      return visit([](F a, F b) { return a <= b ? 1.0F : 0.0F; });
    case Operation::greater:
      return visit([](F a, F b) { return a > b ? 1.0F : 0.0F; });
    case Operation::greater_equal:
      return visit([](F a, F b) { return a >= b ? 1.0F : 0.0F; });
    case Operation::logical_and:
      return visit([](F a, F b) { return a != 0 && b != 0 ? 1.0F : 0.0F; });
    case Operation::logical_or:
      return visit([](F a, F b) { return a != 0 || b != 0 ? 1.0F : 0.0F; });
    case Operation::logical_xor:
      return visit([](F a, F b) { return (a != 0) != (b != 0) ? 1.0F : 0.0F; });
    case Operation::logical_not:
      return visit([](F a, F) { return a == 0 ? 1.0F : 0.0F; });
    case Operation::abs:
      return visit([](F a, F) { return std::fabs(a); });
    case Operation::copy:
      return visit([](F a, F) { return a; });
    case Operation::square:
      return visit([](F a, F) { return a * a; });
    case Operation::sigmoid:
      return visit([](F a, F) { return sigmoid_of(a); });
    case Operation::relu:
      return visit([](F a, F) { return maximum_of(a, 0); });
    case Operation::gelu:
      return visit([](F a, F) { return a * normal_cdf(a); });
    case Operation::gelu_dx:
      return visit([](F a, F) { return normal_cdf(a) + a * kInverseSqrtTwoPi * std::exp(-0.5F * a * a); });
    case Operation::gelu_apprx_tanh:
      return visit(
          [](F a, F) { return 0.5F * a * (1 + std::tanh(kSqrtTwoOverPi * (a + 0.044715F * a * a * a))); });
    case Operation::gelu_apprx_sigmoid:
      return visit([](F a, F) { return a * sigmoid_of(1.702F * a); });
    case Operation::silu:
      return visit([](F a, F) { return a * sigmoid_of(a); });
    case Operation::silu_dx:
      return visit([](F a, F) {
        const F s = sigmoid_of(a);
        return s * (1 + a * (1 - s));
      });
    case Operation::tanh:
      return visit([](F a, F) { return std::tanh(a); });
    case Operation::softplus:
      return visit([](F a, F) { return softplus_of(a); });
    case Operation::mish:
      return visit([](F a, F) { return a * std::tanh(softplus_of(a)); });
    case Operation::erf:
      return visit([](F a, F) { return std::erf(a); });
    case Operation::erf_dx:
      return visit([](F a, F) { return kTwoOverSqrtPi * std::exp(-a * a); });
    case Operation::exp:
      return visit([](F a, F) { return std::exp(a); });
    case Operation::log:
      return visit([](F a, F) { return std::log(a); });
    case Operation::sqrt:
      return visit([](F a, F) { return std::sqrt(a); });
    case Operation::rsqrt:
      return visit([](F a, F) { return 1 / std::sqrt(a); });
    case Operation::reciprocal:
      return visit([](F a, F) { return 1 / a; });
    case Operation::sign:
      return visit([](F a, F) { return a != a ? a : a > 0 ? 1.0F : a < 0 ? -1.0F : 0.0F; });
    case Operation::sin:
      return visit([](F a, F) { return sin_of(a); });
    case Operation::arctan:
      return visit([](F a, F) { return std::atan(a); });
    default:
      break;
  }
  check(false, "the operation has a meaning on floats");
  return visit([](F a, F) { return a; });
}

/// What most instructions do has loops of its own; null for the rest.
VectorLoops::Combine* vector_loop(Operation operation) {
  const VectorLoops& loops = vector_loops();
  if (operation == Operation::multiply) return loops.multiply;
  if (operation == Operation::add) return loops.add;
  return operation == Operation::subtract ? loops.subtract : nullptr;
}

template <class Function>
void apply_rows(Function function, const Elements& a, const Elements& b, float* to, int64_t count) {
  if (a.each != nullptr && b.each != nullptr) {
    for (int64_t i = 0; i < count; ++i) to[i] = function(a.each[i], b.each[i]);
  } else if (a.each != nullptr) {
    const float number = b.number;
    for (int64_t i = 0; i < count; ++i) to[i] = function(a.each[i], number);
  } else if (b.each != nullptr) {
    const float number = a.number;
    for (int64_t i = 0; i < count; ++i) to[i] = function(number, b.each[i]);
  } else {
    const float result = function(a.number, b.number);
    for (int64_t i = 0; i < count; ++i) to[i] = result;
  }
}

uint32_t shift_left(uint32_t a, uint32_t bits) { return bits < 32 ? a << bits : 0; }
uint32_t shift_right(uint32_t a, uint32_t bits) { return bits < 32 ? a >> bits : 0; }
uint32_t shift_signed(uint32_t a, uint32_t bits) {
  return static_cast<uint32_t>(static_cast<int32_t>(a) >> (bits < 32 ? bits : 31));
}

template <class Integer>
Integer divide_integers(Integer a, Integer b) {
  return b == 0 ? Integer{0} : static_cast<Integer>(int64_t{a} / int64_t{b});
}

template <class Integer>
Integer mod_integers(Integer a, Integer b) {
  if (b == 0) return 0;
  const int64_t rest = int64_t{a} % int64_t{b};
  return static_cast<Integer>(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

template <class Integer>
Integer magnitude_of(Integer a) {
  return a < 0 ? static_cast<Integer>(0U - static_cast<uint32_t>(a)) : a;
}

template <class Integer>
Integer apply_integers(Operation operation, Integer a, Integer b) {
  const auto ua = static_cast<uint32_t>(a), ub = static_cast<uint32_t>(b);
  switch (operation) {
    case Operation::add:
      return static_cast<Integer>(ua + ub);
    case Operation::subtract:
      return static_cast<Integer>(ua - ub);
    case Operation::multiply:
      return static_cast<Integer>(ua * ub);
    case Operation::divide:
      return divide_integers(a, b);
    case Operation::mod:
      return mod_integers(a, b);
    case Operation::maximum:
      return a > b ? a : b;
    case Operation::minimum:
      return a < b ? a : b;
    case Operation::abs_max:
      return std::max(magnitude_of(a), magnitude_of(b));
    case Operation::abs_min:
      return std::min(magnitude_of(a), magnitude_of(b));
    case Operation::equal:
      return a == b;
    case Operation::not_equal:
      return a != b;
    case Operation::less:
      return a < b;
    case Operation::less_equal:
      return a <= b;
    case Operation::greater:
      return a > b;
    case Operation::greater_equal:
      return a >= b;
    case Operation::logical_and:
      return a != 0 && b != 0;
    case Operation::logical_or:
      return a != 0 || b != 0;
    case Operation::logical_xor:
      return (a != 0) != (b != 0);
    case Operation::bitwise_and:
      return static_cast<Integer>(ua & ub);
    case Operation::bitwise_or:
      return static_cast<Integer>(ua | ub);
    case Operation::bitwise_xor:
      return static_cast<Integer>(ua ^ ub);
    case Operation::left_shift:
      return static_cast<Integer>(shift_left(ua, ub));
    case Operation::right_shift:
      return static_cast<Integer>(shift_right(ua, ub));
    case Operation::arithmetic_right_shift:
      return static_cast<Integer>(shift_signed(ua, ub));
    case Operation::logical_not:
      return a == 0;
    case Operation::bitwise_not:
      return static_cast<Integer>(~ua);
    case Operation::abs:
      return magnitude_of(a);
    case Operation::copy:
      return a;
    case Operation::square:
      return static_cast<Integer>(ua * ua);
    default:
      break;
  }
  check(false, "the operation has a meaning on integers");
  return 0;
}

}  // namespace

std::string_view operation_name(Operation operation) {
  return kOperationNames[static_cast<size_t>(operation)];
}

bool is_bitvector(Operation operation) {
  return (operation >= Operation::bitwise_and && operation <= Operation::arithmetic_right_shift) ||
         operation == Operation::bitwise_not;
}

bool is_activation(Operation operation) { return operation >= Operation::abs; }

bool is_unary(Operation operation) { return operation >= Operation::logical_not; }

bool is_reduction(Operation operation) {
  switch (operation) {
    case Operation::add:
    case Operation::subtract:
    case Operation::multiply:
    case Operation::maximum:
    case Operation::minimum:
    case Operation::logical_and:
    case Operation::logical_or:
    case Operation::logical_xor:
    case Operation::bitwise_and:
    case Operation::bitwise_or:
    case Operation::bitwise_xor:
      return true;
    default:
      return false;
  }
}

float apply(Operation operation, float a, float b) {
  return with_function(operation, [=](auto function) { return function(a, b); });
}

int32_t apply(Operation operation, int32_t a, int32_t b) { return apply_integers(operation, a, b); }
uint32_t apply(Operation operation, uint32_t a, uint32_t b) { return apply_integers(operation, a, b); }

void apply(Operation operation, Elements a, Elements b, float* to, int64_t count) {
  VectorLoops::Combine* combine = vector_loop(operation);
  if (combine != nullptr && a.each != nullptr && b.each != nullptr) return combine(a.each, b.each, to, count);
  if (is_unary(operation)) b = Elements(0.0F);
  with_function(operation, [&](auto function) { apply_rows(function, a, b, to, count); });
}

float reduce(Operation operation, float initial, const float* from, int64_t count) {
  return with_function(operation, [=](auto function) {
    float value = initial;
    for (int64_t i = 0; i < count; ++i) value = function(value, from[i]);
    return value;
  });
}

}  // namespace titan::nki
