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

/// `a op b` in float32; comparisons and logical operations give 1 or 0, maximum and minimum pass NaNs on, and
/// mod has the sign of b. For operations of one operand `b` is ignored. Operations on bits are not for
/// floats.
///
/// [Note: activations] gelu is the erf form, gelu_apprx_tanh the tanh form, gelu_apprx_sigmoid
/// x sigmoid(1.702 x); *_dx are derivatives. Functions are the C library's: the device's tables are not
/// public. Outside of +-pi, where the device's sin is not defined, it is the cubic that continues its slope
/// (sin(9) = 27.65), as in the public simulator.
float apply(Operation operation, float a, float b = 0);

/// The same on 32-bit integers: arithmetic wraps, comparisons give 0 or 1, division truncates and is 0 by 0;
/// shifts by 32 or more leave no bits. Activation functions are not for integers.
int32_t apply(Operation operation, int32_t a, int32_t b);
uint32_t apply(Operation operation, uint32_t a, uint32_t b);

/// The other operand of a row: one number for all elements, or an element each.
struct Elements {
  Elements(float one) : number(one) {}
  Elements(const float* row) : each(row) {}
  float number = 0;
  const float* each = nullptr;
};

/// to[i] = a[i] op b[i] for `count` elements, in loops without a branch an element: what instructions use.
/// `to` may be an operand.
void apply(Operation operation, Elements a, Elements b, float* to, int64_t count);

/// initial op from[0] op from[1] ..., in this order. For is_reduction, abs_max and abs_min.
float reduce(Operation operation, float initial, const float* from, int64_t count);

}  // namespace titan::nki
