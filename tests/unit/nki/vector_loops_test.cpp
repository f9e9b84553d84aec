#include "titan/nki/vector_loops.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "titan/base/error.h"

using namespace titan::nki;

namespace {

/// Every upper half of a float, with lower halves around a tie: NaNs, infinities and subnormals too.
std::vector<float> floats_around_ties() {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  }
  return values;
}

uint16_t rounded(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rest = bits & 0xFFFF;
  auto high = static_cast<uint16_t>(bits >> 16);
  if (value != value) return high | 0x40;
  if (rest > 0x8000 || (rest == 0x8000 && high % 2 == 1)) ++high;
  return high;
}

/// Runs `check` with the loops of each set that this machine has.
template <class Check>
void with_each_set(Check check) {
  for (const titan::Isa isa : {titan::Isa::baseline, titan::Isa::avx2, titan::Isa::avx512}) {
    const std::string set(name(isa));
    CAPTURE(set);
    if (isa > titan::best_cpu_isa()) {
      CHECK_THROWS_WITH_AS(vector_loops(isa), doctest::Contains(set.c_str()), titan::ValueError);
    } else {
      check(vector_loops(isa));
    }
  }
}

}  // namespace

TEST_CASE("vector loops: each set rounds to bfloat16 and back alike, whatever the number and the byte") {
  const std::vector<float> values = floats_around_ties();
  const auto count = static_cast<int64_t>(values.size());
  with_each_set([&](const VectorLoops& loops) {
    for (const size_t odd : {0, 1}) {
      std::vector<std::byte> bytes(values.size() * 2 + 3, std::byte{0x5A});
      loops.round_bfloat16(values.data(), bytes.data() + odd, count - 1);
      int64_t wrong = 0;
      for (int64_t i = 0; i < count - 1; ++i) {
        uint16_t stored = 0;
        std::memcpy(&stored, bytes.data() + odd + 2 * i, 2);
        wrong += stored != rounded(values[static_cast<size_t>(i)]) ? 1 : 0;
      }
      CHECK(wrong == 0);
      CHECK(bytes[odd + static_cast<size_t>(count - 1) * 2] == std::byte{0x5A});

      std::vector<float> wide(values.size(), 7);
      loops.widen_bfloat16(bytes.data() + odd, wide.data(), count - 1);
      for (int64_t i = 0; i < count - 1; ++i) {
        const auto bits = std::bit_cast<uint32_t>(wide[static_cast<size_t>(i)]);
        wrong += bits != uint32_t{rounded(values[static_cast<size_t>(i)])} << 16 ? 1 : 0;
      }
      CHECK(wrong == 0);
      CHECK(wide.back() == 7);
    }
  });
}

TEST_CASE("vector loops: each set adds, subtracts and multiplies as one element does, in place too") {
  with_each_set([](const VectorLoops& loops) {
    for (const int64_t count : {0, 1, 7, 64, 129}) {
      std::vector<float> a, b;
      for (int64_t i = 0; i <= count; ++i) {
        a.push_back(1.0F + 0.37F * static_cast<float>(i));
        b.push_back(3.0F - 0.11F * static_cast<float>(i));
      }
      const auto holds = [&](VectorLoops::Combine* combine, auto one) {
        std::vector<float> apart(a.size(), 7), left = a, right = b;
        combine(a.data(), b.data(), apart.data(), count);
        combine(left.data(), b.data(), left.data(), count);
        combine(a.data(), right.data(), right.data(), count);
        int64_t wrong = apart.back() != 7 || left.back() != a.back() || right.back() != b.back() ? 1 : 0;
        for (size_t i = 0; i + 1 < a.size(); ++i) {
          const float expected = one(a[i], b[i]);
          wrong += apart[i] != expected || left[i] != expected || right[i] != expected ? 1 : 0;
        }
        CHECK(wrong == 0);
      };
      holds(loops.add, [](float x, float y) { return x + y; });
      holds(loops.subtract, [](float x, float y) { return x - y; });
      holds(loops.multiply, [](float x, float y) { return x * y; });
    }
  });
}
