#include <doctest/doctest.h>

#include "kernel_error.h"
#include "lanes.h"

using namespace titan::nki;
using namespace titan::nki::lanes;

TEST_CASE("iota counts along its pattern and the partitions, then rounds") {
  on_core([] {
    for (const Dtype dtype : {Dtype::int32, Dtype::float32, Dtype::bfloat16, Dtype::int8, Dtype::uint32}) {
      CAPTURE(dtype_name(dtype));
      const Tensor out = tile({9, 3, 10}, dtype)(all, all, Slice{0, 10, 2});
      nisa::iota(out, {{-50, 3}, {7, 5}}, {.offset = 11, .channel_multiplier = 20});
      Floats expected;
      for (int p = 0; p < 9; ++p) {
        for (int i = 0; i < 3; ++i) {
          for (int j = 0; j < 5; ++j) {
            expected.push_back(rounded(static_cast<float>(11 + p * 20 - i * 50 + j * 7), dtype));
          }
        }
      }
      CHECK(values(out) == expected);
    }
    const Tensor exact = tile({1, 2}, Dtype::int32);
    nisa::iota(exact, {{1, 2}}, {.offset = 16777216});
    int32_t bits[2];
    Rows(exact).read_bits(0, reinterpret_cast<std::byte*>(bits));
    CHECK(bits[1] == 16777217);
  });
}

TEST_CASE("patterns reach every 32-bit integer, and none beyond") {
  struct Count {
    nisa::Pattern pattern;
    int64_t offset, multiplier;
    bool fits;
  };
  const std::vector<Count> counts = {
      {{{-INT32_MAX, 2}}, INT32_MAX, 0, true}, {{{1, 2}}, INT32_MIN, 0, true},
      {{{INT32_MAX, 2}}, INT32_MIN, 0, true},  {{{-1, 2}}, INT32_MIN, 0, false},
      {{{1, 2}}, INT32_MAX, 0, false},         {{{0, 2}}, INT32_MAX, -int64_t{UINT32_MAX}, true},
      {{{0, 2}}, INT32_MAX, 1, false},         {{{INT64_MAX, 2}}, 0, INT64_MIN, false},
      {{{0, 2}}, INT64_MAX, INT64_MIN, false},
  };
  for (const Count& count : counts) {
    CAPTURE(count.offset);
    CAPTURE(count.pattern[0].first);
    const auto numbers = [&](auto act) {
      const auto made = [&] { on_core([&] { act(); }); };
      const std::string rule = broken_rule(made);
      CAPTURE(rule);
      CHECK((count.fits ? rule.empty() : rule.ends_with(".pattern-range")));
    };
    for (const Dtype dtype : {Dtype::int32, Dtype::float32}) {
      numbers([&] {
        const Tensor out = tile({2, 2}, dtype);
        nisa::iota(out, count.pattern, {.offset = count.offset, .channel_multiplier = count.multiplier});
        Floats expected;
        for (int64_t p = 0; p < 2; ++p) {
          for (int64_t i = 0; i < 2; ++i) {
            expected.push_back(
                static_cast<float>(count.offset + p * count.multiplier + i * count.pattern[0].first));
          }
        }
        CHECK(values(out) == expected);
      });
    }
    numbers([&] {
      const Tensor x = drawn(tile({2, 2}), 1), out = tile({2, 2});
      nisa::affine_select(out, count.pattern, count.multiplier, x, -5,
                          {.cmp_op = Operation::greater_equal, .offset = count.offset});
      Floats expected = values(x);
      for (int64_t p = 0; p < 2; ++p) {
        for (int64_t i = 0; i < 2; ++i) {
          const int64_t number = count.offset + p * count.multiplier + i * count.pattern[0].first;
          if (number < 0) expected[static_cast<size_t>(p * 2 + i)] = -5;
        }
      }
      CHECK(values(out) == expected);
    });
  }
}

TEST_CASE("affine_select keeps what its pattern compares true") {
  on_core([] {
    const Tensor x = drawn(tile({8, 2, 6}, Dtype::bfloat16), 1), out = tile({8, 2, 6});
    for (const Operation compare : {Operation::greater_equal, Operation::equal, Operation::less,
                                    Operation::not_equal, Operation::greater, Operation::less_equal}) {
      nisa::affine_select(out, {{3, 2}, {-1, 6}}, 1, x, -9984.5, {.cmp_op = compare, .offset = -2});
      Floats expected = values(x);
      for (int p = 0; p < 8; ++p) {
        for (int i = 0; i < 12; ++i) {
          const auto number = static_cast<float>(-2 + p + i / 6 * 3 - i % 6);
          if (apply(compare, number, 0.0F) == 0) expected[static_cast<size_t>(p * 12 + i)] = -9984.5F;
        }
      }
      CHECK(values(out) == expected);
    }
  });
}

TEST_CASE("range_select keeps what lies between its bounds, and finds the largest") {
  on_core([] {
    const float lowest = -3.4028235e38F;
    const Tensor x = drawn(tile({4, 10}), 2), out = tile({4, 10}, Dtype::float32, Buffer::psum);
    const Tensor from = tile_of({4, 1}, {100, 103, 108, 120}), to = tile_of({4, 1}, {104, 103, 200, 121});
    const Tensor most = tile({4, 1});
    nisa::range_select(out, x, Operation::greater_equal, Operation::less, from, to,
                       {.range_start = 100, .reduce_res = most});
    Floats expected = values(x), largest(4, lowest);
    const Floats low = values(from), high = values(to);
    for (size_t i = 0; i < 40; ++i) {
      const float place = 100.0F + static_cast<float>(i % 10);
      if (place < low[i / 10] || place >= high[i / 10]) expected[i] = lowest;
      largest[i / 10] = std::max(largest[i / 10], expected[i]);
    }
    CHECK(values(out) == expected);
    CHECK(values(most) == largest);
    CHECK(largest[3] == lowest);
    nisa::range_select(out, x, Operation::greater_equal, Operation::less, from, to, {.range_start = 100});
    CHECK(values(out) == expected);
  });
}
