#include "titan/nki/dtype.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace titan::nki;

namespace {

uint32_t encoded(float value, Dtype dtype) {
  uint32_t bits = 0;
  from_float(&value, dtype, reinterpret_cast<std::byte*>(&bits), 1);
  return bits;
}

float decoded(uint32_t bits, Dtype dtype) {
  float value = 0;
  to_float(reinterpret_cast<const std::byte*>(&bits), dtype, &value, 1);
  return value;
}

struct NarrowFloat {
  Dtype dtype;
  int exponent_bits, mantissa_bits;
  uint32_t patterns() const { return 1U << (1 + exponent_bits + mantissa_bits); }
};
constexpr NarrowFloat kNarrow[] = {
    {Dtype::bfloat16, 8, 7}, {Dtype::float16, 5, 10}, {Dtype::float8_e4m3, 4, 3}, {Dtype::float8_e5m2, 5, 2}};

/// The number a pattern stands for, by the definition of IEEE formats.
double meaning(uint32_t bits, const NarrowFloat& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<double>(bits & ((1U << format.mantissa_bits) - 1));
  const int exponent = static_cast<int>(bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const double sign = bits >> (format.exponent_bits + format.mantissa_bits) ? -1 : 1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const double whole = exponent == 0 ? 0 : std::ldexp(1, format.mantissa_bits);
  return sign * std::ldexp(whole + mantissa, (exponent == 0 ? 1 : exponent) - bias - format.mantissa_bits);
}

}  // namespace

TEST_CASE("every pattern of a narrow float reads as IEEE defines it and is written back as it was") {
  for (const NarrowFloat& format : kNarrow) {
    CAPTURE(dtype_name(format.dtype));
    for (uint32_t bits = 0; bits < format.patterns(); ++bits) {
      const double expected = meaning(bits, format);
      const float value = decoded(bits, format.dtype);
      if (std::isnan(expected)) {
        REQUIRE(std::isnan(value));
        REQUIRE(std::isnan(decoded(encoded(value, format.dtype), format.dtype)));
      } else {
        REQUIRE(value == expected);
        REQUIRE(encoded(value, format.dtype) == bits);
      }
    }
  }
}

TEST_CASE("floats round to the nearest narrow float, to the even one between two") {
  std::mt19937 random(7);
  for (const NarrowFloat& format : kNarrow) {
    CAPTURE(dtype_name(format.dtype));
    // Of positive finite patterns neighbours in value are neighbours in number.
    const uint32_t infinity = ((1U << format.exponent_bits) - 1) << format.mantissa_bits;
    for (int i = 0; i < 20000; ++i) {
      const uint32_t low = random() % (infinity - 1);
      const double a = meaning(low, format), b = meaning(low + 1, format);
      const double middle = (a + b) / 2;
      const auto tie = static_cast<float>(middle);
      const uint32_t even = low % 2 == 0 ? low : low + 1;
      CAPTURE(low);
      REQUIRE(encoded(tie, format.dtype) == even);
      REQUIRE(encoded(std::nextafter(tie, 0.0F), format.dtype) == low);
      REQUIRE(encoded(std::nextafter(tie, INFINITY), format.dtype) == low + 1);
      REQUIRE(encoded(-tie, format.dtype) == (even | (format.patterns() / 2)));
    }
    // Half a step above the largest number is infinite.
    const double largest = meaning(infinity - 1, format), step = largest - meaning(infinity - 2, format);
    REQUIRE(encoded(static_cast<float>(largest + step / 2), format.dtype) == infinity);
    REQUIRE(encoded(std::nextafter(static_cast<float>(largest + step / 2), 0.0F), format.dtype) ==
            infinity - 1);
    REQUIRE(encoded(-INFINITY, format.dtype) == (infinity | (format.patterns() / 2)));
  }
}

TEST_CASE("narrow floats have the bits that PyTorch gives them") {
  // torch.tensor(values).to(dtype).view(integers), torch 2.13; float8_e4m3 by torch.float8_e4m3fn, with which
  // it agrees up to 240.
  struct Row {
    float value;
    uint32_t bfloat16, float16, e5m2;
  };
  const Row rows[] = {
      {0.0F, 0x0, 0x0, 0x0},
      {-0.0F, 0x8000, 0x8000, 0x80},
      {1.0F, 0x3f80, 0x3c00, 0x3c},
      {-1.5F, 0xbfc0, 0xbe00, 0xbe},
      {3.14159274F, 0x4049, 0x4248, 0x42},
      {0.1F, 0x3dcd, 0x2e66, 0x2e},
      {65504.0F, 0x4780, 0x7bff, 0x7c},
      {65519.0F, 0x4780, 0x7bff, 0x7c},
      {65520.0F, 0x4780, 0x7c00, 0x7c},
      {6e-8F, 0x3381, 0x1, 0x0},
      {3.0e-8F, 0x3301, 0x1, 0x0},
      {6.1e-5F, 0x3880, 0x3ff, 0x4},
      {-1e38F, 0xfe96, 0xfc00, 0xfc},
      {0x1.fff5cap-26F, 0x3300, 0x0, 0x0},
      {17.0F, 0x4188, 0x4c40, 0x4c},
      {19.0F, 0x4198, 0x4cc0, 0x4d},
      {61440.0F, 0x4770, 0x7b80, 0x7c},
      {61439.0F, 0x4770, 0x7b80, 0x7b},
      {0x1.01p0F, 0x3f80, 0x3c04, 0x3c},
      {0x1.03p0F, 0x3f82, 0x3c0c, 0x3c},
      {0x1.fep127F, 0x7f7f, 0x7c00, 0x7c},
      {0x1.ff933cp127F, 0x7f80, 0x7c00, 0x7c},
  };
  for (const Row& row : rows) {
    CAPTURE(row.value);
    CHECK(encoded(row.value, Dtype::bfloat16) == row.bfloat16);
    CHECK(encoded(row.value, Dtype::float16) == row.float16);
    CHECK(encoded(row.value, Dtype::float8_e5m2) == row.e5m2);
  }
  CHECK(encoded(3.14159274F, Dtype::float8_e4m3) == 0x45);
  CHECK(encoded(0.1F, Dtype::float8_e4m3) == 0x1d);
  CHECK(encoded(17.0F, Dtype::float8_e4m3) == 0x58);
  CHECK(encoded(19.0F, Dtype::float8_e4m3) == 0x5a);
  CHECK(encoded(0x1.7c1bdap-9F, Dtype::float8_e4m3) == 0x1);
  CHECK(encoded(-0x1.00e6bp-10F, Dtype::float8_e4m3) == 0x81);
  CHECK(encoded(0x1p-10F, Dtype::float8_e4m3) == 0x0);
}

TEST_CASE("float8_e4m3 ends at 240, then come infinity and NaN") {
  CHECK(decoded(0x77, Dtype::float8_e4m3) == 240);
  CHECK(std::isinf(decoded(0x78, Dtype::float8_e4m3)));
  CHECK(std::isnan(decoded(0x79, Dtype::float8_e4m3)));
  CHECK(encoded(247.9F, Dtype::float8_e4m3) == 0x77);
  CHECK(encoded(248.0F, Dtype::float8_e4m3) == 0x78);
  CHECK(encoded(448.0F, Dtype::float8_e4m3) == 0x78);
}

TEST_CASE("integers take floats rounded to nearest even, and saturate") {
  CHECK(encoded(2.5F, Dtype::uint8) == 2);
  CHECK(encoded(3.5F, Dtype::uint8) == 4);
  CHECK(encoded(-1.0F, Dtype::uint8) == 0);
  CHECK(encoded(255.5F, Dtype::uint8) == 255);
  CHECK(encoded(1e30F, Dtype::uint8) == 255);
  CHECK(encoded(NAN, Dtype::uint8) == 0);
  CHECK(decoded(encoded(-2.5F, Dtype::int8), Dtype::int8) == -2);
  CHECK(decoded(encoded(-200.0F, Dtype::int8), Dtype::int8) == -128);
  CHECK(decoded(encoded(-INFINITY, Dtype::int16), Dtype::int16) == -32768);
  CHECK(encoded(70000.0F, Dtype::uint16) == 65535);
  CHECK(encoded(2147483648.0F, Dtype::int32) == 2147483647);
  CHECK(encoded(-2147483648.0F, Dtype::int32) == 0x80000000);
  CHECK(encoded(2147483520.0F, Dtype::int32) == 2147483520);
  CHECK(encoded(4294967296.0F, Dtype::uint32) == 0xFFFFFFFF);
  CHECK(encoded(3000000000.0F, Dtype::uint32) == 3000000000U);
  CHECK(encoded(16777217.0F, Dtype::int32) == 16777216);
}

TEST_CASE("integers read as the nearest float32") {
  CHECK(decoded(16777217, Dtype::int32) == 16777216.0F);
  CHECK(decoded(16777219, Dtype::int32) == 16777220.0F);
  CHECK(decoded(0xFFFFFFFF, Dtype::int32) == -1.0F);
  CHECK(decoded(0xFFFFFFFF, Dtype::uint32) == 4294967296.0F);
  CHECK(decoded(0xFF, Dtype::int8) == -1.0F);
  CHECK(decoded(0xFF, Dtype::uint8) == 255.0F);
}

TEST_CASE("float32 and tfloat32 keep their bits, and a bfloat16 NaN stays one") {
  for (uint32_t bits : {0x3f800001U, 0x7fc12345U, 0x00000001U}) {
    CHECK(encoded(std::bit_cast<float>(bits), Dtype::float32) == bits);
    CHECK(encoded(std::bit_cast<float>(bits), Dtype::tfloat32) == bits);
  }
  CHECK(std::isnan(decoded(encoded(std::bit_cast<float>(0x7fffffffU), Dtype::bfloat16), Dtype::bfloat16)));
  CHECK(std::isnan(decoded(encoded(std::bit_cast<float>(0x7f800001U), Dtype::bfloat16), Dtype::bfloat16)));
}

TEST_CASE("memory never written holds NaN, or 4 in integers") {
  for (int i = 0; i <= static_cast<int>(Dtype::uint8); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    CAPTURE(dtype_name(dtype));
    std::vector<std::byte> bytes(static_cast<size_t>(5 * itemsize(dtype)));
    fill_unwritten(bytes.data(), dtype, 5);
    std::vector<float> values(5);
    to_float(bytes.data(), dtype, values.data(), 5);
    for (float value : values) CHECK((is_float(dtype) ? std::isnan(value) : value == 4));
  }
}
