#pragma once

#include <cstdint>
#include <string_view>

namespace titan::nki {

/// What an instruction computes on elements: the tokens of nki.language, `nl::add`.
enum class Operation : uint8_t {
  none,
  // Arithmetic of two operands, in float32 (or exact on 32-bit integers where an instruction says so).
  add,
  subtract,
  multiply,
  divide,
  maximum,
  minimum,
  power,
  mod,
  abs_max,
  abs_min,
  average,
  // Comparisons: 1 or 0.
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  logical_xor,
  // Bit vectors: integers, no conversion.
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  left_shift,
  right_shift,
  arithmetic_right_shift,
  // Of one operand, where an instruction allows it.
  logical_not,
  bitwise_not,
  abs,
  // Activation functions.
  copy,
  square,
  sigmoid,
  relu,
  gelu,
  gelu_dx,
  gelu_apprx_tanh,
  gelu_apprx_sigmoid,
  silu,
  silu_dx,
  tanh,
  softplus,
  mish,
  erf,
  erf_dx,
  exp,
  log,
  sqrt,
  rsqrt,
  reciprocal,
  sign,
  sin,
  arctan,
};

/// "add".
std::string_view operation_name(Operation operation);

bool is_bitvector(Operation operation);   ///< integers in, integers out, no conversion
bool is_activation(Operation operation);  ///< ScalarE evaluates it
bool is_unary(Operation operation);       ///< takes one operand
bool is_reduction(Operation operation);   ///< may combine elements along an axis

/// `a op b` in float32. For operations of one operand `b` is ignored.
float apply(Operation operation, float a, float b = 0);

/// The same on 32-bit integers: arithmetic wraps, comparisons give 0 or 1.
int32_t apply(Operation operation, int32_t a, int32_t b);

}  // namespace titan::nki
