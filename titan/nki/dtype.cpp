#include "titan/nki/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "titan/base/error.h"
#include "titan/nki/vector_loops.h"

namespace titan::nki {
namespace {

struct DtypeRow {
  std::string_view name;
  int64_t bytes;
  bool is_float;
};

constexpr DtypeRow kDtypes[] = {
    {"float32", 4, true},     {"tfloat32", 4, true},    {"bfloat16", 2, true}, {"float16", 2, true},
    {"float8_e4m3", 1, true}, {"float8_e5m2", 1, true}, {"int32", 4, false},   {"uint32", 4, false},
    {"int16", 2, false},      {"uint16", 2, false},     {"int8", 1, false},    {"uint8", 1, false},
};

const DtypeRow& dtype_row(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)]; }

// Elements are loaded and stored by memcpy: a kernel may place any dtype at any byte.
template <class Stored, class Convert>
void decode_all(const std::byte* from, float* to, int64_t count, Convert convert) {
  for (int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, from + i * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
    to[i] = convert(stored);
  }
}

template <class Stored, class Convert>
void encode_all(const float* from, std::byte* to, int64_t count, Convert convert) {
  for (int64_t i = 0; i < count; ++i) {
    const Stored stored = convert(from[i]);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(Stored)), &stored, sizeof(Stored));
  }
}

/// An IEEE format of 1 sign, kExponent and kMantissa bits: the highest exponent is infinity and NaN.
template <int kExponent, int kMantissa>
struct SmallFloat {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kInfinity = ((1U << kExponent) - 1) << kMantissa;

  static float decode(uint32_t bits) {
    const uint32_t sign = (bits >> (kExponent + kMantissa)) << 31;
    const uint32_t magnitude = bits & ((1U << (kExponent + kMantissa)) - 1);
    if (magnitude >= kInfinity) {
      const uint32_t mantissa = (magnitude - kInfinity) << (23 - kMantissa);
      return std::bit_cast<float>(sign | 0x7F800000 | mantissa);
    }
    // Read with float32's bias the number is small by a power of two, subnormal or not: exact.
    const float small = std::bit_cast<float>(magnitude << (23 - kMantissa));
    const float scale = std::bit_cast<float>(static_cast<uint32_t>(127 + 127 - kBias) << 23);
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(small * scale));
  }

  static uint32_t encode(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 31) << (kExponent + kMantissa);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return sign | kInfinity | (1U << (kMantissa - 1));
    constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(127 + 1 - kBias) << 23;
    if (magnitude < kSmallestNormal) {
      // The unit in the last place of 2^(23 + 1 - bias - mantissa) is this format's smallest number: the
      // addition rounds to it.
      const float unit = std::bit_cast<float>(static_cast<uint32_t>(127 + 24 - kBias - kMantissa) << 23);
      const float sum = std::bit_cast<float>(magnitude) + unit;
      return sign | (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(unit));
    }
    constexpr int kDropped = 23 - kMantissa;
    const uint32_t rounded = magnitude + (1U << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1);
    const uint32_t small = (rounded >> kDropped) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
    return sign | (small < kInfinity ? small : kInfinity);
  }
};

using Float16 = SmallFloat<5, 10>;
using Float8E4M3 = SmallFloat<4, 3>;
using Float8E5M2 = SmallFloat<5, 2>;

template <class Integer>
Integer float_to_integer(float value) {
  constexpr double kLowest = std::numeric_limits<Integer>::lowest();
  constexpr double kHighest = std::numeric_limits<Integer>::max();
  constexpr double kRound = 0x1.8p52;  // a sum with it has no bits after the point
  double number = value == value ? value : 0.0;
  number = number < kLowest ? kLowest : number;
  number = number > kHighest ? kHighest : number;
  return static_cast<Integer>((number + kRound) - kRound);
}

template <class Integer>
float integer_to_float(Integer value) {
  return static_cast<float>(value);
}

template <class Bits>
void fill_bits(std::byte* to, int64_t count, Bits bits) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * static_cast<int64_t>(sizeof(Bits)), &bits, sizeof(Bits));
}

}  // namespace

int64_t itemsize(Dtype dtype) { return dtype_row(dtype).bytes; }
std::string_view dtype_name(Dtype dtype) { return dtype_row(dtype).name; }
bool is_float(Dtype dtype) { return dtype_row(dtype).is_float; }

void to_float(const std::byte* from, Dtype dtype, float* to, int64_t count) {
  switch (dtype) {
    case Dtype::float32:
    case Dtype::tfloat32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case Dtype::bfloat16:
      return vector_loops().widen_bfloat16(from, to, count);
    case Dtype::float16:
      return decode_all<uint16_t>(from, to, count, Float16::decode);
    case Dtype::float8_e4m3:
      return decode_all<uint8_t>(from, to, count, Float8E4M3::decode);
    case Dtype::float8_e5m2:
      return decode_all<uint8_t>(from, to, count, Float8E5M2::decode);
    case Dtype::int32:
      return decode_all<int32_t>(from, to, count, integer_to_float<int32_t>);
    case Dtype::uint32:
      return decode_all<uint32_t>(from, to, count, integer_to_float<uint32_t>);
    case Dtype::int16:
      return decode_all<int16_t>(from, to, count, integer_to_float<int16_t>);
    case Dtype::uint16:
      return decode_all<uint16_t>(from, to, count, integer_to_float<uint16_t>);
    case Dtype::int8:
      return decode_all<int8_t>(from, to, count, integer_to_float<int8_t>);
    case Dtype::uint8:
      return decode_all<uint8_t>(from, to, count, integer_to_float<uint8_t>);
  }
  check(false, "every dtype converts to float32");
}

void from_float(const float* from, Dtype dtype, std::byte* to, int64_t count) {
  switch (dtype) {
    case Dtype::float32:
    case Dtype::tfloat32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case Dtype::bfloat16:
      return vector_loops().round_bfloat16(from, to, count);
    case Dtype::float16:
      return encode_all<uint16_t>(from, to, count,
                                  [](float value) { return static_cast<uint16_t>(Float16::encode(value)); });
    case Dtype::float8_e4m3:
      return encode_all<uint8_t>(from, to, count,
                                 [](float value) { return static_cast<uint8_t>(Float8E4M3::encode(value)); });
    case Dtype::float8_e5m2:
      return encode_all<uint8_t>(from, to, count,
                                 [](float value) { return static_cast<uint8_t>(Float8E5M2::encode(value)); });
    case Dtype::int32:
      return encode_all<int32_t>(from, to, count, float_to_integer<int32_t>);
    case Dtype::uint32:
      return encode_all<uint32_t>(from, to, count, float_to_integer<uint32_t>);
    case Dtype::int16:
      return encode_all<int16_t>(from, to, count, float_to_integer<int16_t>);
    case Dtype::uint16:
      return encode_all<uint16_t>(from, to, count, float_to_integer<uint16_t>);
    case Dtype::int8:
      return encode_all<int8_t>(from, to, count, float_to_integer<int8_t>);
    case Dtype::uint8:
      return encode_all<uint8_t>(from, to, count, float_to_integer<uint8_t>);
  }
  check(false, "float32 converts to every dtype");
}

void fill_unwritten(std::byte* to, Dtype dtype, int64_t count) {
  const int64_t bytes = itemsize(dtype);
  uint32_t bits = 4;
  if (is_float(dtype)) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::byte stored[4] = {};
    from_float(&nan, dtype, stored, 1);
    std::memcpy(&bits, stored, sizeof(bits));
  }
  if (bytes == 4) return fill_bits(to, count, bits);
  if (bytes == 2) return fill_bits(to, count, static_cast<uint16_t>(bits));
  fill_bits(to, count, static_cast<uint8_t>(bits));
}

}  // namespace titan::nki
