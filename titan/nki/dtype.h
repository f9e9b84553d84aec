#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace titan::nki {

/// Element types of NKI.
enum class Dtype : uint8_t {
  float32,
  tfloat32,  ///< stored as float32, products rounded to 10 bits of mantissa
  bfloat16,
  float16,
  float8_e4m3,  ///< largest finite value 240; then infinity and NaN
  float8_e5m2,
  int32,
  uint32,
  int16,
  uint16,
  int8,
  uint8,
};

int64_t itemsize(Dtype dtype);
std::string_view dtype_name(Dtype dtype);
bool is_float(Dtype dtype);

/// `count` elements as float32. Integers convert by rounding to nearest, even on ties.
void to_float(const std::byte* from, Dtype dtype, float* to, int64_t count);

/// float32 rounded into elements: to nearest, even on ties; integers saturate, and a NaN becomes 0; floats
/// beyond the range become infinities (float8_e4m3 has them too: it is the IEEE kind).
void from_float(const float* from, Dtype dtype, std::byte* to, int64_t count);

/// What memory that was never written holds: NaN for floats, 4 for integers (as the public simulator fills
/// it).
void fill_unwritten(std::byte* to, Dtype dtype, int64_t count);

}  // namespace titan::nki
