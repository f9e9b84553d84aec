#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace titan {

/// Every element type the safetensors format names. Narrower ones than a byte are packed.
enum class SafetensorsDtype {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f6_e2m3,
  f6_e3m2,
  f4,
  c64,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};

/// The format's own name: "F32", "BF16", "F8_E4M3", "BOOL".
std::string_view dtype_name(SafetensorsDtype dtype);

/// The type of that name, or nothing.
std::optional<SafetensorsDtype> find_dtype(std::string_view name);

/// Size of an element in bits.
int64_t dtype_bits(SafetensorsDtype dtype);

/// F64, F32, F16 and BF16: numbers that stand for themselves. FP8 and below need a scale.
bool is_plain_float(SafetensorsDtype dtype);

/// F8_E4M3 and F8_E5M2.
bool is_float8(SafetensorsDtype dtype);

}  // namespace titan
