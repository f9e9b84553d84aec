#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "lanes.h"

using namespace titan::nki;
using namespace titan::nki::lanes;

namespace {

struct BinaryCase {
  Operation op;
  std::function<float(float, float)> function;
};

const std::vector<BinaryCase>& binary_cases() {
  static const std::vector<BinaryCase> cases = {
      {Operation::add, [](float a, float b) { return a + b; }},
      {Operation::subtract, [](float a, float b) { return a - b; }},
      {Operation::multiply, [](float a, float b) { return a * b; }},
      {Operation::divide, [](float a, float b) { return a / b; }},
      {Operation::maximum, [](float a, float b) { return std::max(a, b); }},
      {Operation::minimum, [](float a, float b) { return std::min(a, b); }},
      {Operation::abs_max, [](float a, float b) { return std::max(std::fabs(a), std::fabs(b)); }},
      {Operation::less, [](float a, float b) { return a < b ? 1.0F : 0.0F; }},
      {Operation::greater_equal, [](float a, float b) { return a >= b ? 1.0F : 0.0F; }},
      {Operation::not_equal, [](float a, float b) { return a != b ? 1.0F : 0.0F; }},
      {Operation::logical_and, [](float a, float b) { return a != 0 && b != 0 ? 1.0F : 0.0F; }},
  };
  return cases;
}

const std::vector<Dtype> kDtypes = {Dtype::float32,     Dtype::bfloat16,    Dtype::float16,
                                    Dtype::float8_e4m3, Dtype::float8_e5m2, Dtype::int32,
                                    Dtype::int16,       Dtype::int8,        Dtype::uint8};

void check_equal(const Floats& got, const Floats& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
    if (same) continue;
    INFO("element " << i << ": " << got[i] << " instead of " << expected[i]);
    CHECK(same);
    return;
  }
}

template <class Integer>
Tensor integer_tile(std::vector<int64_t> shape, Dtype dtype, const std::vector<Integer>& from) {
  Tensor tensor = tile(std::move(shape), dtype);
  const Rows rows(tensor);
  for (int64_t p = 0; p < rows.partitions(); ++p) {
    rows.write_bits(p, reinterpret_cast<const std::byte*>(from.data() + p * rows.count()));
  }
  return tensor;
}

template <class Integer>
std::vector<Integer> integers(const Tensor& tensor) {
  const Rows rows(tensor);
  std::vector<Integer> got(static_cast<size_t>(tensor.numel()));
  for (int64_t p = 0; p < rows.partitions(); ++p) {
    rows.read_bits(p, reinterpret_cast<std::byte*>(got.data() + p * rows.count()));
  }
  return got;
}

}  // namespace

TEST_CASE("tensor_copy reads a row before it writes it, where a cast lies over its own source") {
  on_core([] {
    const Tensor wide = tile_of({2, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    const Tensor narrow = wide.view(Dtype::bfloat16)(all, ds(8, 8));
    nisa::tensor_copy(narrow, wide);
    CHECK(values(narrow) == Floats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  });
}

TEST_CASE("tensor_tensor combines each pair of elements, whatever the layout") {
  on_core([] {
    for (const Layout& a : layouts()) {
      for (const BinaryCase& each : binary_cases()) {
        CAPTURE(a.name);
        const Tensor x = drawn(a.make(Dtype::float32, Buffer::sbuf), 1);
        const Tensor y = drawn(tile({a.partitions, 15}, Dtype::bfloat16), 2);
        const Tensor out = a.make(Dtype::float32, Buffer::psum);
        nisa::tensor_tensor(out, x, y, each.op);
        Floats expected = values(x);
        const Floats right = values(y);
        for (size_t i = 0; i < expected.size(); ++i) expected[i] = each.function(expected[i], right[i]);
        check_equal(values(out), expected);
      }
    }
  });
}

TEST_CASE("tensor_tensor rounds into every dtype as it writes") {
  on_core([] {
    for (const Dtype dtype : kDtypes) {
      CAPTURE(dtype_name(dtype));
      const Tensor x = drawn(tile({3, 17}), 3), y = drawn(tile({3, 17}), 4);
      const Tensor out = tile({3, 17}, dtype);
      nisa::tensor_tensor(out, x, y, Operation::multiply);
      Floats expected = values(x);
      const Floats right = values(y);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = rounded(expected[i] * right[i], dtype);
      check_equal(values(out), expected);
    }
  });
}

TEST_CASE("writes round to nearest even, saturate integers and overflow floats") {
  struct Rounding {
    Dtype dtype;
    float from, to;
  };
  const float inf = std::numeric_limits<float>::infinity();
  const Rounding roundings[] = {
      {Dtype::bfloat16, 1.00390625F, 1.0F},
      {Dtype::bfloat16, 1.01171875F, 1.015625F},
      {Dtype::bfloat16, -1.00390631F, -1.0078125F},
      {Dtype::float16, 1.00048828125F, 1.0F},
      {Dtype::float16, 70000.0F, inf},
      {Dtype::float8_e4m3, 17.0F, 16.0F},
      {Dtype::float8_e4m3, 19.0F, 20.0F},
      {Dtype::float8_e5m2, 9.0F, 8.0F},
      {Dtype::int32, 2.5F, 2.0F},
      {Dtype::int32, 3.5F, 4.0F},
      {Dtype::int8, 200.0F, 127.0F},
      {Dtype::int8, -200.0F, -128.0F},
      {Dtype::uint8, -3.0F, 0.0F},
      {Dtype::uint8, 300.0F, 255.0F},
      {Dtype::int16, 40000.0F, 32767.0F},
  };
  on_core([&] {
    for (const Rounding& each : roundings) {
      CAPTURE(dtype_name(each.dtype));
      CAPTURE(each.from);
      const Tensor x = tile_of({1, 1}, {each.from});
      const Tensor copied = tile({1, 1}, each.dtype), scaled = tile({1, 1}, each.dtype),
                   activated = tile({1, 1}, each.dtype), reduced = tile({1, 1}, each.dtype);
      nisa::tensor_copy(copied, x);
      nisa::tensor_scalar(scaled, x, Operation::multiply, 1.0);
      nisa::activation(activated, Operation::copy, x);
      nisa::tensor_reduce(reduced, Operation::add, x, {1});
      for (const Tensor& got : {copied, scaled, activated, reduced}) CHECK(values(got)[0] == each.to);
    }
  });
}

TEST_CASE("multiplications and additions are not contracted") {
  // 1 + 2^-12 squared is 1 + 2^-11 + 2^-24; the product is rounded before 1 + 2^-11 is taken from it.
  on_core([] {
    const float x = 1.0F + 0x1p-12F;
    const Tensor a = tile_of({2, 8}, Floats(16, x)), rest = tile_of({2, 8}, Floats(16, 1.0F + 0x1p-11F));
    const Tensor product = tile({2, 8}), out = tile({2, 8});
    nisa::tensor_tensor(product, a, a, Operation::multiply);
    nisa::tensor_tensor(out, product, rest, Operation::subtract);
    CHECK(values(out) == Floats(16, 0.0F));
    nisa::scalar_tensor_tensor(out, a, Operation::multiply, double{x}, Operation::subtract, rest);
    CHECK(values(out) == Floats(16, 0.0F));
    nisa::activation(out, Operation::copy, a, {.bias = -(1.0F + 0x1p-11F), .scale = ScalarOperand(x)});
    CHECK(values(out) == Floats(16, 0.0F));
  });
}

TEST_CASE("a source may be seen several times, and dst may be a source") {
  on_core([] {
    const Tensor x = drawn(tile({4, 3, 5}), 5);
    const Tensor y = drawn(tile({4, 1, 5}), 6);
    Floats expected = values(x);
    const Floats once = values(y);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] *= once[i / 15 * 5 + i % 5];
    nisa::tensor_tensor(x, x, y.broadcast(1, 3), Operation::multiply);
    check_equal(values(x), expected);
    for (float& value : expected) value = value + value;
    nisa::tensor_tensor(x, x, x, Operation::add);
    check_equal(values(x), expected);
  });
}

TEST_CASE("32-bit integers are combined exactly on GpSimdE and through float32 on VectorE") {
  on_core([] {
    const std::vector<int32_t> a = {16777217, 2147483647, -2147483647, 65537}, b = {2, 1, -2, 65537};
    const Tensor x = integer_tile<int32_t>({1, 4}, Dtype::int32, a);
    const Tensor y = integer_tile<int32_t>({1, 4}, Dtype::int32, b);
    const Tensor out = tile({1, 4}, Dtype::int32);
    nisa::tensor_tensor(out, x, y, Operation::add);
    CHECK(integers<int32_t>(out) == std::vector<int32_t>{16777219, INT32_MIN, 2147483647, 131074});
    nisa::tensor_tensor(out, x, y, Operation::multiply);
    CHECK(integers<int32_t>(out) == std::vector<int32_t>{33554434, 2147483647, -2, 131073});
    nisa::tensor_tensor(out, x, y, Operation::add, {.engine = Engine::vector});
    CHECK(integers<int32_t>(out)[0] == 16777218);
    const Tensor u = integer_tile<uint32_t>({1, 2}, Dtype::uint32, {4000000000U, 1U});
    const Tensor v = integer_tile<uint32_t>({1, 2}, Dtype::uint32, {1U, 2U});
    const Tensor larger = tile({1, 2}, Dtype::uint32);
    nisa::tensor_tensor(larger, u, v, Operation::maximum);
    CHECK(integers<uint32_t>(larger) == std::vector<uint32_t>{4000000000U, 2U});
    // Signed ones are compared as such.
    const Tensor below = integer_tile<int32_t>({1, 4}, Dtype::int32, {-1, -1, 5, -7});
    nisa::tensor_tensor(out, below, y, Operation::maximum);
    CHECK(integers<int32_t>(out) == std::vector<int32_t>{2, 1, 5, 65537});
  });
}

TEST_CASE("GpSimdE goes through float32 where an operand is no 32-bit integer, and for powers") {
  on_core([] {
    const Tensor x = integer_tile<int32_t>({1, 2}, Dtype::int32, {3, 4});
    const Tensor y = integer_tile<int32_t>({1, 2}, Dtype::int32, {2, 3});
    const Tensor out = tile({1, 2}, Dtype::int32), sum = tile({1, 2});
    nisa::tensor_tensor(sum, x, y, Operation::add, {.engine = Engine::gpsimd});
    CHECK(values(sum) == Floats{5, 7});
    nisa::tensor_tensor(out, x, tile_of({1, 2}, {2.6F, -1.25F}), Operation::add, {.engine = Engine::gpsimd});
    CHECK(values(out) == Floats{6, 3});
    nisa::tensor_tensor(out, tile_of({1, 2}, {2.6F, -1.25F}), x, Operation::add, {.engine = Engine::gpsimd});
    CHECK(values(out) == Floats{6, 3});
    nisa::tensor_tensor(out, x, y, Operation::power);
    CHECK(values(out) == Floats{9, 64});
    nisa::tensor_tensor(out, x, y, Operation::average, {.engine = Engine::gpsimd});
    CHECK(values(out) == Floats{2, 4});  // 2.5 and 3.5, to even
  });
}

TEST_CASE("bit operations work on the bits of integers of every size") {
  on_core([] {
    const Tensor x = integer_tile<uint8_t>({1, 3}, Dtype::uint8, {0xF0, 0x81, 0x0F});
    const Tensor y = integer_tile<uint8_t>({1, 3}, Dtype::uint8, {0x3C, 1, 4});
    const Tensor out = tile({1, 3}, Dtype::uint8);
    nisa::tensor_tensor(out, x, y, Operation::bitwise_and);
    CHECK(integers<uint8_t>(out) == std::vector<uint8_t>{0x30, 1, 4});
    nisa::tensor_tensor(out, x, y, Operation::bitwise_xor);
    CHECK(integers<uint8_t>(out) == std::vector<uint8_t>{0xCC, 0x80, 0x0B});
    nisa::tensor_scalar(out, x, Operation::left_shift, 1, {.op1 = Operation::bitwise_or, .operand1 = 1});
    CHECK(integers<uint8_t>(out) == std::vector<uint8_t>{0xE1, 3, 0x1F});
    nisa::tensor_scalar(out, x, Operation::arithmetic_right_shift, 4);
    CHECK(integers<uint8_t>(out) == std::vector<uint8_t>{0xFF, 0xF8, 0});
    nisa::tensor_scalar(out, x, Operation::right_shift, 4);
    CHECK(integers<uint8_t>(out) == std::vector<uint8_t>{0x0F, 8, 0});
    nisa::tensor_scalar(out, x, Operation::bitwise_not, 0);
    CHECK(integers<uint8_t>(out) == std::vector<uint8_t>{0x0F, 0x7E, 0xF0});
    const Tensor wide = integer_tile<int32_t>({1, 2}, Dtype::int32, {INT32_MIN + 5, 0x7FFFFFFF});
    const Tensor shifted = tile({1, 2}, Dtype::int32);
    nisa::tensor_scalar(shifted, wide, Operation::arithmetic_right_shift, 4);
    CHECK(integers<int32_t>(shifted) == std::vector<int32_t>{-134217728, 0x07FFFFFF});
    nisa::tensor_scalar(shifted, wide, Operation::left_shift, 3, {.reverse0 = true});
    CHECK(integers<int32_t>(shifted) == std::vector<int32_t>{0, 0});
  });
}

TEST_CASE("shifts of two tensors keep the sign of the elements' own size, or bring zeros") {
  on_core([] {
    const auto check = [](auto first, Dtype dtype) {
      using Integer = decltype(first);
      CAPTURE(dtype_name(dtype));
      const Tensor x = integer_tile<Integer>({1, 2}, dtype, {first, 100});
      const Tensor y = integer_tile<Integer>({1, 2}, dtype, {3, 2}), out = tile({1, 2}, dtype);
      nisa::tensor_tensor(out, x, y, Operation::arithmetic_right_shift);
      CHECK(integers<Integer>(out) == std::vector<Integer>{static_cast<Integer>(first >> 3), 25});
      nisa::tensor_tensor(out, x, y, Operation::right_shift);
      using Bits = std::make_unsigned_t<Integer>;
      const auto zeros = static_cast<Integer>(static_cast<Bits>(first) >> 3);
      CHECK(integers<Integer>(out) == std::vector<Integer>{zeros, 25});
    };
    check(int8_t{-100}, Dtype::int8);
    check(int16_t{-30000}, Dtype::int16);
    check(int32_t{-2000000000}, Dtype::int32);
  });
}

TEST_CASE("bit operations take a number a partition, either way round, and numbers of the elements' size") {
  on_core([] {
    const Tensor x = integer_tile<int16_t>({2, 2}, Dtype::int16, {0x1234, 0x0FF0, 0x1234, 0x0FF0});
    const Tensor masks = integer_tile<int16_t>({2, 1}, Dtype::int16, {0x0F00, 0x00FF});
    const Tensor out = tile({2, 2}, Dtype::int16);
    nisa::tensor_scalar(out, x, Operation::bitwise_and, masks);
    CHECK(integers<int16_t>(out) == std::vector<int16_t>{0x0200, 0x0F00, 0x0034, 0x00F0});
    const Tensor few = integer_tile<uint8_t>({1, 3}, Dtype::uint8, {0, 1, 4}),
                 bits = tile({1, 3}, Dtype::uint8);
    nisa::tensor_scalar(bits, few, Operation::bitwise_or, 1,
                        {.op1 = Operation::left_shift, .operand1 = 3, .reverse1 = true});
    CHECK(integers<uint8_t>(bits) == std::vector<uint8_t>{6, 6, 96});
    nisa::tensor_scalar(bits, few, Operation::right_shift, 0x1F0, {.reverse0 = true});
    CHECK(integers<uint8_t>(bits) == std::vector<uint8_t>{0xF0, 0x78, 0x0F});
  });
}

TEST_CASE("tensor_scalar takes numbers or a number a partition, either way round") {
  on_core([] {
    for (const Layout& a : layouts()) {
      CAPTURE(a.name);
      const Tensor x = drawn(a.make(Dtype::bfloat16, Buffer::sbuf), 7);
      const Tensor each = drawn(tile({a.partitions, 1}), 8);
      const Tensor out = a.make(Dtype::float32, Buffer::sbuf);
      nisa::tensor_scalar(out, x, Operation::subtract, each,
                          {.reverse0 = true, .op1 = Operation::divide, .operand1 = 3.0});
      const Floats in = values(x), numbers = values(each);
      Floats expected(in.size());
      for (size_t i = 0; i < in.size(); ++i) expected[i] = (numbers[i / 15] - in[i]) / 3.0F;
      check_equal(values(out), expected);
      nisa::tensor_scalar(out, x, Operation::multiply, 2.0,
                          {.op1 = Operation::divide, .operand1 = each, .reverse1 = true});
      for (size_t i = 0; i < in.size(); ++i) expected[i] = numbers[i / 15] / (in[i] * 2.0F);
      check_equal(values(out), expected);
    }
  });
}

TEST_CASE("tensor_scalar takes operations of one operand") {
  on_core([] {
    const Tensor x = tile_of({1, 3}, {-4.0F, 0.0F, 16.0F}), out = tile({1, 3});
    nisa::tensor_scalar(out, x, Operation::abs, 0, {.op1 = Operation::rsqrt});
    CHECK(values(out) == Floats{0.5F, std::numeric_limits<float>::infinity(), 0.25F});
    nisa::tensor_scalar(out, x, Operation::logical_not, 0);
    CHECK(values(out) == Floats{0, 1, 0});
    // They have nothing to turn round.
    nisa::tensor_scalar(out, x, Operation::abs, 0, {.reverse0 = true});
    CHECK(values(out) == Floats{4, 0, 16});
    const Tensor bits = integer_tile<uint8_t>({1, 2}, Dtype::uint8, {1, 0xF0}),
                 flipped = tile({1, 2}, Dtype::uint8);
    nisa::tensor_scalar(flipped, bits, Operation::bitwise_not, 0, {.reverse0 = true});
    CHECK(integers<uint8_t>(flipped) == std::vector<uint8_t>{0xFE, 0x0F});
  });
}

TEST_CASE("scalar_tensor_tensor applies both operations in order") {
  on_core([] {
    const Tensor x = drawn(tile({64, 9}, Dtype::float16), 9), y = drawn(tile({64, 9}), 10);
    const Tensor each = drawn(tile({64, 1}, Dtype::bfloat16), 11), out = tile({64, 9}, Dtype::bfloat16);
    nisa::scalar_tensor_tensor(out, x, Operation::subtract, each, Operation::divide, y,
                               {.reverse0 = true, .reverse1 = true});
    const Floats a = values(x), b = values(y), s = values(each);
    Floats expected(a.size());
    for (size_t i = 0; i < a.size(); ++i) expected[i] = rounded(b[i] / (s[i / 9] - a[i]), Dtype::bfloat16);
    check_equal(values(out), expected);
  });
}

TEST_CASE("tensor_scalar_reduce also reduces what it writes, before its rounding") {
  on_core([] {
    const Tensor x = drawn(tile({33, 11}), 12), out = tile({33, 11}, Dtype::bfloat16), sum = tile({33, 1});
    nisa::tensor_scalar_reduce(out, x, Operation::multiply, 3.0, Operation::add, sum);
    const Floats in = values(x);
    Floats expected(in.size()), sums(33);
    for (size_t p = 0; p < 33; ++p) {
      sums[p] = in[p * 11] * 3.0F;
      for (size_t i = 1; i < 11; ++i) sums[p] += in[p * 11 + i] * 3.0F;
    }
    for (size_t i = 0; i < in.size(); ++i) expected[i] = rounded(in[i] * 3.0F, Dtype::bfloat16);
    check_equal(values(out), expected);
    check_equal(values(sum), sums);
    nisa::tensor_scalar_reduce(out, x, Operation::abs_max, 0.0, Operation::maximum, sum);
    for (size_t p = 0; p < 33; ++p) {
      sums[p] = 0;
      for (size_t i = 0; i < 11; ++i) sums[p] = std::max(sums[p], std::fabs(in[p * 11 + i]));
    }
    check_equal(values(sum), sums);
  });
}

TEST_CASE("tensor_scalar_reduce takes its number either way round") {
  on_core([] {
    const Tensor x = tile_of({1, 3}, {1, 2, 4}), out = tile({1, 3}), sum = tile({1, 1});
    nisa::tensor_scalar_reduce(out, x, Operation::subtract, 10.0, Operation::add, sum, {.reverse0 = true});
    CHECK(values(out) == Floats{9, 8, 6});
    CHECK(values(sum) == Floats{23});
    nisa::tensor_scalar_reduce(out, x, Operation::subtract, 10.0, Operation::add, sum);
    CHECK(values(sum) == Floats{-23});
  });
}

TEST_CASE("reciprocal divides 1 in float32") {
  on_core([] {
    const Tensor x = drawn(tile({2, 5}, Dtype::bfloat16), 13), out = tile({2, 5});
    nisa::reciprocal(out, x);
    Floats expected = values(x);
    for (float& value : expected) value = 1.0F / value;
    check_equal(values(out), expected);
  });
}

TEST_CASE("tensor_copy of one dtype moves the bits, also of NaNs") {
  on_core([] {
    const std::vector<uint32_t> bits = {0x7FA00001, 0xFFFFFFFF, 0x80000000, 1};
    Tensor x = tile({1, 4});
    Rows(x).write_bits(0, reinterpret_cast<const std::byte*>(bits.data()));
    const Tensor out = tile({1, 8})(all, Slice{0, 8, 2});
    nisa::tensor_copy(out, x);
    CHECK(integers<uint32_t>(out) == bits);
    const Tensor big = integer_tile<int32_t>({1, 1}, Dtype::int32, {16777217}),
                 copy = tile({1, 1}, Dtype::int32);
    nisa::tensor_copy(copy, big, {.engine = Engine::gpsimd});
    CHECK(integers<int32_t>(copy)[0] == 16777217);
  });
}

TEST_CASE("memset writes one value into every layout and dtype") {
  on_core([] {
    for (const Layout& a : layouts()) {
      for (const Dtype dtype : kDtypes) {
        const Tensor out = a.make(dtype, Buffer::sbuf);
        nisa::memset(out, 3);
        CHECK(values(out) == Floats(static_cast<size_t>(out.numel()), 3.0F));
      }
    }
    const Tensor exact = tile({1, 2}, Dtype::int32);
    nisa::memset(exact, 16777217);
    CHECK(integers<int32_t>(exact)[1] == 16777217);
    const Tensor positive = tile({1, 1}, Dtype::uint32);
    nisa::memset(positive, 4294967293);
    CHECK(integers<uint32_t>(positive)[0] == 4294967293);
    const Tensor lowest = tile({1, 1}, Dtype::bfloat16);
    nisa::memset(lowest, -std::numeric_limits<double>::infinity());
    CHECK(values(lowest)[0] == -std::numeric_limits<float>::infinity());
  });
}

TEST_CASE("tensor_copy_predicated writes only where the predicate says so") {
  on_core([] {
    const Tensor x = drawn(tile({2, 4}, Dtype::bfloat16), 14);
    const Tensor takes = integer_tile<uint16_t>({2, 4}, Dtype::uint16, {0, 1, 0, 7, 1, 1, 0, 0});
    // Two halves of a tensor that was never written make all of it.
    const Tensor out = tile({2, 4}, Dtype::bfloat16), zeros = tile({2, 4}, Dtype::bfloat16);
    nisa::memset(zeros, 0);
    nisa::tensor_copy_predicated(out, x, takes);
    CHECK_THROWS_AS(nisa::tensor_copy(zeros, out), KernelError);
    nisa::tensor_copy_predicated(out, zeros, takes, {.reverse_pred = true});
    Floats expected = values(x);
    for (const size_t i : {0, 2, 6, 7}) expected[i] = 0;
    CHECK(values(out) == expected);
  });
}

TEST_CASE("tensor_copy_predicated reaches the elements of views, of tensors at an address too") {
  on_core([] {
    for (const bool placed : {false, true}) {
      const nl::NdarrayOptions options{.address = nl::Address{64, 4096}};
      const Tensor out = nl::ndarray({64, 3, 4}, Dtype::float32, placed ? options : nl::NdarrayOptions{});
      nisa::memset(out, 0);
      const Tensor part = out(ds(32, 2), ds(1, 2), Slice{1, 4, 2});
      const Tensor x = tile_of({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
      const Tensor takes = integer_tile<uint8_t>({2, 2, 2}, Dtype::uint8, {1, 0, 0, 1, 0, 1, 1, 1});
      nisa::tensor_copy_predicated(part, x, takes);
      CHECK(values(part) == Floats{1, 0, 0, 4, 0, 6, 7, 8});
      const Floats all_of_it = values(out);
      CHECK(std::accumulate(all_of_it.begin(), all_of_it.end(), 0.0F) == 26);
    }
  });
}

TEST_CASE("nc_stream_shuffle moves rows within each 32 partitions") {
  on_core([] {
    const Tensor x = drawn(tile({64, 3}), 15), out = drawn(tile({64, 3}), 16);
    std::array<uint8_t, 32> mask;
    for (size_t p = 0; p < 32; ++p) mask[p] = static_cast<uint8_t>(31 - p);
    mask[4] = 255;
    Floats expected = values(out);
    const Floats from = values(x);
    for (size_t p = 0; p < 64; ++p) {
      if (p % 32 == 4) continue;
      for (size_t i = 0; i < 3; ++i) expected[p * 3 + i] = from[(p / 32 * 32 + 31 - p % 32) * 3 + i];
    }
    nisa::nc_stream_shuffle(out, x, mask);
    check_equal(values(out), expected);
    // In place.
    mask[4] = 27;
    Floats mirrored = from;
    for (size_t p = 0; p < 64; ++p) {
      for (size_t i = 0; i < 3; ++i) mirrored[p * 3 + i] = from[(p / 32 * 32 + 31 - p % 32) * 3 + i];
    }
    nisa::nc_stream_shuffle(x, x, mask);
    check_equal(values(x), mirrored);
    // One partition for 32.
    const Tensor spread = tile({32, 3});
    nisa::nc_stream_shuffle(spread, x(ds(0, 1), all), {});
    for (size_t i = 0; i < 96; ++i) CHECK(values(spread)[i] == mirrored[i % 3]);
  });
}

TEST_CASE("registers load and store numbers of SBUF and HBM") {
  on_core([] {
    const Tensor x = integer_tile<int32_t>({1, 2}, Dtype::int32, {-7, 40});
    Register first, second(99);
    nisa::register_load(first, x(all, ds(1, 1)));
    CHECK(first.value() == 40);
    nisa::register_store(x(all, ds(0, 1)), second);
    CHECK(integers<int32_t>(x) == std::vector<int32_t>{99, 40});
    const Tensor far = nl::ndarray({2}, Dtype::int32, nl::hbm);
    nisa::register_store(far(ds(1, 1)), first);
    nisa::register_load(second, far(ds(1, 1)));
    CHECK(second.value() == 40);
    CHECK_THROWS_AS(nisa::register_load(second, far(ds(0, 1))), KernelError);
    const Tensor large = integer_tile<uint32_t>({1, 1}, Dtype::uint32, {3000000000U});
    nisa::register_load(second, large);
    CHECK(second.value() == 3000000000);
  });
}

TEST_CASE("registers are loaded and stored where another register says") {
  on_core([] {
    const Tensor far = nl::ndarray({4}, Dtype::int32, nl::hbm);
    const Register three(3), number(77);
    const Tensor last = far.ap({.pattern = {{1, 1}}, .scalar_offset = three});
    nisa::register_store(last, number);
    Register loaded, again;
    nisa::register_load(loaded, far(ds(3, 1)));
    nisa::register_load(again, last);
    CHECK(loaded.value() == 77);
    CHECK(again.value() == 77);
    const Tensor index = integer_tile<int32_t>({1, 1}, Dtype::int32, {3});
    const Tensor row = far.ap({.pattern = {{1, 1}}, .vector_offset = index});
    CHECK_THROWS_WITH_AS(nisa::register_load(loaded, row), doctest::Contains("register_load.operand"),
                         KernelError);
  });
}

TEST_CASE("operands may begin where a register says when the instruction runs") {
  on_core([] {
    const Tensor x = drawn(tile({4, 8, 3}), 17), out = tile({4, 3});
    const Tensor takes = integer_tile<uint8_t>({4, 3}, Dtype::uint8, std::vector<uint8_t>(12, 1));
    const Register row(5);
    const Tensor view = x.ap({.pattern = {{24, 4}, {1, 3}}, .scalar_offset = row, .indirect_dim = 1});
    nisa::tensor_copy(out, view);
    CHECK(values(out) == values(x(all, 5)));
    nisa::tensor_scalar(out, out, Operation::multiply, 2.0);
    nisa::tensor_copy_predicated(view, out, takes);
    CHECK(values(x(all, 5)) == values(out));
  });
}
