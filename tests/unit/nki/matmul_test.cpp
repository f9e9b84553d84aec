#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/nki/moving.h"

using namespace titan::nki;
using namespace titan::nki::moving;

namespace {

/// stationary^T moving by loops.
std::vector<float> product(const std::vector<float>& stationary, const std::vector<float>& moving,
                           int64_t depth) {
  const auto k_size = static_cast<size_t>(depth);
  const size_t rows = stationary.size() / k_size, cols = moving.size() / k_size;
  std::vector<float> out(rows * cols);
  for (size_t m = 0; m < rows; ++m) {
    for (size_t n = 0; n < cols; ++n) {
      for (size_t k = 0; k < k_size; ++k)
        out[m * cols + n] += stationary[k * rows + m] * moving[k * cols + n];
    }
  }
  return out;
}

std::vector<float> sum(std::vector<float> a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// A stationary and a moving tile of quarters, whose products float32 holds exactly.
struct Pair {
  int64_t depth, rows, cols;
  std::vector<float> left, right;
  Tensor stationary, moving;

  Pair(int64_t k, int64_t m, int64_t n, uint32_t seed = 1, Dtype dtype = Dtype::bfloat16)
      : depth(k), rows(m), cols(n), left(quarters(k * m, seed)), right(quarters(k * n, seed + 100)) {
    stationary = on_sbuf({k, m}, dtype, left);
    moving = on_sbuf({k, n}, dtype, right);
  }
  std::vector<float> expected() const { return product(left, right, depth); }
};

}  // namespace

TEST_CASE("nc_matmul: odd sizes of every float dtype give what loops give") {
  for (const Dtype dtype : {Dtype::float32, Dtype::tfloat32, Dtype::bfloat16, Dtype::float16,
                            Dtype::float8_e4m3, Dtype::float8_e5m2}) {
    for (const auto& [k, m, n] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                  {3, 5, 7},
                                  {128, 128, 512},
                                  {64, 33, 129},
                                  {127, 9, 511}}) {
      INFO(dtype_name(dtype), " ", k, " ", m, " ", n);
      on_core([&, k = k, m = m, n = n] {
        const Pair pair(k, m, n, 3, dtype);
        Tensor acc = nl::ndarray({m, n}, Dtype::float32, nl::psum);
        nisa::nc_matmul(acc, pair.stationary, pair.moving);
        CHECK(bring(acc) == pair.expected());
      });
    }
  }
}

TEST_CASE("nc_matmul: operands of two narrow dtypes multiply") {
  on_core([] {
    const Tensor a = on_sbuf({16, 8}, Dtype::float16, quarters(128, 1));
    const Tensor b = on_sbuf({16, 12}, Dtype::float8_e4m3, quarters(192, 2));
    Tensor acc = nl::ndarray({8, 12}, Dtype::float32, nl::psum);
    nisa::nc_matmul(acc, a, b);
    CHECK(bring(acc) == product(quarters(128, 1), quarters(192, 2), 16));
  });
}

TEST_CASE("nc_matmul: views with strides, offsets and several free dimensions") {
  on_core([] {
    const std::vector<float> wide = quarters(int64_t{32} * 20, 4), other = quarters(int64_t{64} * 24, 5);
    const Tensor a = on_sbuf({32, 20}, Dtype::bfloat16, wide), b = on_sbuf({64, 24}, Dtype::bfloat16, other);
    // Every second column of a from 3 on; of b the lower half and 3 dimensions, the inner two swapped.
    const Tensor stationary = a(all, Slice{3, 17, 2});
    const Tensor moving = b(ds(32, 32)).reshape({32, 2, 12}).permute({0, 2, 1});
    Tensor bank = nl::ndarray({7, 64}, Dtype::float32, nl::psum);
    nisa::nc_matmul(bank(all, Slice{2, 50, 2}), stationary, moving);
    std::vector<float> left, right;
    for (size_t k = 0; k < 32; ++k) {
      for (size_t m = 0; m < 7; ++m) left.push_back(wide[k * 20 + 3 + 2 * m]);
      for (size_t j = 0; j < 12; ++j) {
        for (size_t i = 0; i < 2; ++i) right.push_back(other[(32 + k) * 24 + i * 12 + j]);
      }
    }
    CHECK(bring(bank(all, Slice{2, 50, 2})) == product(left, right, 32));
  });
  // What is between its columns stays unwritten.
  const Broken between = broken([] {
    const Pair pair(8, 4, 8);
    Tensor bank = nl::ndarray({4, 16}, Dtype::float32, nl::psum);
    nisa::nc_matmul(bank(all, Slice{0, 16, 2}), pair.stationary, pair.moving);
    bring(bank);
  });
  CHECK(between.rule == "memory.unwritten");
}

TEST_CASE("nc_matmul: at a tensor's places the first write overwrites, later ones add") {
  on_core([] {
    const Pair a(16, 8, 32, 1), b(128, 8, 32, 2), c(16, 8, 32, 3);
    Tensor acc = nl::ndarray({8, 32}, Dtype::float32, nl::psum);
    nisa::nc_matmul(acc, a.stationary, a.moving);
    nisa::nc_matmul(acc, b.stationary, b.moving);
    CHECK(bring(acc) == sum(a.expected(), b.expected()));
    nisa::nc_matmul(acc, c.stationary, c.moving, {.accumulate = false});
    CHECK(bring(acc) == c.expected());
    nisa::nc_matmul(acc, a.stationary, a.moving, {.accumulate = true});
    CHECK(bring(acc) == sum(c.expected(), a.expected()));
  });
}

TEST_CASE("nc_matmul: groups in several banks, and partly overlapping ones, are kept apart") {
  on_core([] {
    const Pair a(16, 8, 512, 1), b(16, 8, 512, 2), part(16, 8, 100, 3);
    Tensor banks = nl::ndarray({8, 2, 512}, Dtype::float32, nl::psum);
    const Tensor first = banks(all, 0), second = banks(all, 1);
    nisa::nc_matmul(first, a.stationary, a.moving);
    nisa::nc_matmul(second, b.stationary, b.moving);
    nisa::nc_matmul(first, b.stationary, b.moving);
    CHECK(bring(first) == sum(a.expected(), b.expected()));
    CHECK(bring(second) == b.expected());

    // The part writes first; the whole then adds there and overwrites elsewhere.
    Tensor acc = nl::ndarray({8, 512}, Dtype::float32, nl::psum);
    nisa::nc_matmul(acc(all, ds(50, 100)), part.stationary, part.moving);
    nisa::nc_matmul(acc, a.stationary, a.moving);
    std::vector<float> expected = a.expected();
    const std::vector<float> inner = part.expected();
    for (size_t m = 0; m < 8; ++m) {
      for (size_t n = 0; n < 100; ++n) expected[m * 512 + 50 + n] += inner[m * 100 + n];
    }
    CHECK(bring(acc) == expected);
  });
}

TEST_CASE("nc_matmul: sums are kept by partition and place, also of strided views and at an address") {
  on_core([] {
    const Pair part(16, 8, 16, 1), whole(16, 8, 32, 2);
    std::vector<float> both = whole.expected();
    const std::vector<float> some = part.expected();
    for (size_t m = 0; m < 8; ++m) {
      for (size_t n = 0; n < 16; ++n) both[m * 32 + n] += some[m * 16 + n];
    }
    // Elements that lie apart are added up elsewhere: what the part left out counts as zeros.
    const Tensor every_other = nl::ndarray({8, 64}, Dtype::float32, nl::psum)(all, Slice{0, 64, 2});
    nisa::nc_matmul(every_other(all, ds(0, 16)), part.stationary, part.moving);
    nisa::nc_matmul(every_other, whole.stationary, whole.moving);
    CHECK(bring(every_other) == both);
    const Tensor placed =
        nl::ndarray({8, 32}, Dtype::float32, {.buffer = nl::psum, .address = nl::Address{32, 4096}});
    nisa::memset(placed, 5);
    nisa::nc_matmul(placed(all, ds(0, 16)), part.stationary, part.moving);
    nisa::nc_matmul(placed, whole.stationary, whole.moving);
    CHECK(bring(placed) == both);
    // Rows from partition 32 on hold a sum, those from 0 on do not.
    const Tensor tall = nl::ndarray({64, 32}, Dtype::float32, nl::psum);
    nisa::nc_matmul(tall(ds(32, 8)), whole.stationary, whole.moving);
    nisa::nc_matmul(tall(ds(0, 8)), whole.stationary, whole.moving);
    CHECK(bring(tall(ds(0, 8))) == whole.expected());
  });
}

TEST_CASE("nc_matmul: a bank picked by a register keeps its own sums") {
  on_core([] {
    const Pair a(16, 8, 512, 1), b(16, 8, 512, 2);
    Tensor banks = nl::ndarray({8, 2, 512}, Dtype::float32, nl::psum);
    for (const int64_t bank : {0, 1, 1}) {
      const Register number(bank);
      const Tensor& moving = bank == 0 ? a.moving : b.moving;
      nisa::nc_matmul(
          banks.ap({.pattern = {{1024, 8}, {1, 512}}, .scalar_offset = number, .indirect_dim = 1}),
          bank == 0 ? a.stationary : b.stationary, moving);
    }
    CHECK(bring(banks(all, 0)) == a.expected());
    CHECK(bring(banks(all, 1)) == sum(b.expected(), b.expected()));
  });
}

TEST_CASE("TensorE writes one bank, wherever a register or a number of SBUF puts its result") {
  const auto write_at = [](int64_t column, bool transpose, bool from_tensor) {
    Tensor banks = nl::ndarray({128, 1024}, Dtype::float32, nl::psum);
    const Register number(column);
    const Tensor index = on_sbuf({1, 1}, Dtype::int32, {static_cast<float>(column)});
    const int64_t width = transpose ? 128 : 512;
    const Tensor dst = banks.ap({.pattern = {{1024, 128}, {1, width}},
                                 .scalar_offset = from_tensor ? ScalarOffset(index) : ScalarOffset(number),
                                 .indirect_dim = 1});
    Tensor data = nl::ndarray({128, width}, Dtype::float32);
    nisa::memset(data, 1);
    if (transpose) {
      nisa::nc_transpose(dst, data);
    } else {
      nisa::nc_matmul(dst, data(all, ds(0, 128)), data);
    }
  };
  for (const bool from_tensor : {false, true}) {
    for (const bool transpose : {false, true}) {
      const std::string name = transpose ? "nc_transpose" : "nc_matmul";
      CAPTURE(name);
      CHECK(broken([&] { write_at(512, transpose, from_tensor); }).rule == "none");
      const Broken crossing = broken([&] { write_at(400, transpose, from_tensor); });
      CHECK(crossing.rule == name + ".psum-bank");
      CHECK(crossing.says("matmul_test.cpp:"));
      CHECK(crossing.says("dst takes bytes 1600 to "));
      RunOptions trn3{.generation = Generation::trn3};
      CHECK(broken([&] { write_at(400, transpose, from_tensor); }, trn3).rule == "none");
    }
  }
}

TEST_CASE("nc_matmul: a result may lie backwards, and a message counts bytes upwards") {
  on_core([] {
    const Pair a(16, 8, 32, 1);
    Tensor acc = nl::ndarray({8, 512}, Dtype::float32, nl::psum);
    nisa::nc_matmul(acc.ap({.pattern = {{512, 8}, {-1, 32}}, .offset = 511}), a.stationary, a.moving);
    std::vector<float> expected = a.expected();
    for (size_t m = 0; m < 8; ++m) {
      const auto row = expected.begin() + static_cast<std::ptrdiff_t>(m) * 32;
      std::reverse(row, row + 32);
    }
    CHECK(bring(acc(all, ds(480, 32))) == expected);
  });
  const Broken crossing = broken([] {
    const Pair a(16, 8, 2, 1);
    Tensor acc = nl::ndarray({8, 1024}, Dtype::float32, nl::psum);
    nisa::nc_matmul(acc.ap({.pattern = {{1024, 8}, {-600, 2}}, .offset = 700}), a.stationary, a.moving);
  });
  CHECK(crossing.rule == "nc_matmul.psum-bank");
  CHECK(crossing.says("dst takes bytes 400 to 2803 of"));
}

TEST_CASE("nc_matmul: a tensor made at an address in use starts afresh, and one freed does too") {
  on_core([] {
    const Pair a(16, 8, 32, 1), b(16, 8, 32, 2);
    const nl::NdarrayOptions bank{.buffer = nl::psum, .address = nl::Address{0, 2048}};
    Tensor old = nl::ndarray({8, 32}, Dtype::float32, bank),
           alias = nl::ndarray({8, 32}, Dtype::float32, bank);
    nisa::nc_matmul(old, a.stationary, a.moving);
    nisa::nc_matmul(alias, b.stationary, b.moving);
    CHECK(bring(alias) == b.expected());
    CHECK(bring(old) == b.expected());  // the bytes are the same
    for (int i = 0; i < 3; ++i) {
      Tensor acc = nl::ndarray({8, 32}, Dtype::float32, nl::psum);
      nisa::nc_matmul(acc, a.stationary, a.moving);
      CHECK(bring(acc) == a.expected());
    }
  });
}

TEST_CASE("nc_matmul: what other engines wrote is overwritten first, and is no sum to add to") {
  on_core([] {
    const Pair a(16, 8, 32, 1);
    Tensor acc = nl::ndarray({8, 32}, Dtype::float32, nl::psum);
    nisa::memset(acc, 5);
    nisa::nc_matmul(acc, a.stationary, a.moving);
    CHECK(bring(acc) == a.expected());
    Tensor placed =
        nl::ndarray({8, 32}, Dtype::float32, {.buffer = nl::psum, .address = nl::Address{0, 4096}});
    nisa::memset(placed, 5);
    nisa::nc_matmul(placed, a.stationary, a.moving);
    CHECK(bring(placed) == a.expected());
  });
  const auto accumulate_on = [](bool fill, int64_t written) {
    return broken([&] {
      const Pair a(16, 8, 32, 1), b(16, 8, 16, 1);
      Tensor acc = nl::ndarray({8, 32}, Dtype::float32, nl::psum);
      if (fill) nisa::memset(acc, 0);
      if (written > 0) nisa::nc_matmul(acc(all, ds(0, 16)), b.stationary, b.moving);
      if (written > 16) nisa::nc_matmul(acc(all, ds(16, 16)), b.stationary, b.moving);
      nisa::nc_matmul(acc, a.stationary, a.moving, {.accumulate = true});
    });
  };
  CHECK(accumulate_on(false, 0).rule == "nc_matmul.accumulate-untouched");
  CHECK(accumulate_on(false, 0).says("matmul_test.cpp"));
  CHECK(accumulate_on(true, 0).rule == "nc_matmul.accumulate-untouched");
  CHECK(accumulate_on(false, 16).says("some places of dst"));
  CHECK(accumulate_on(false, 32).rule == "none");
}

TEST_CASE("nc_matmul: sums are float32, also where bfloat16 is multiplied") {
  on_core([] {
    // 1 + 2^-10: bfloat16 would lose it.
    const Tensor a = on_sbuf({2, 1}, Dtype::bfloat16, {1, 1}),
                 b = on_sbuf({2, 1}, Dtype::bfloat16, {1, 0.0009765625F});
    Tensor acc = nl::ndarray({1, 1}, Dtype::float32, nl::psum);
    nisa::nc_matmul(acc, a, b);
    CHECK(bring(acc)[0] == 1.0009765625F);
  });
}

TEST_CASE("nc_matmul: tfloat32 operands are rounded to 10 bits, float32 ones are not") {
  const float above = 1.0F + 0x1.8p-11F, tie = 1.0F + 0x1p-11F, odd_tie = 1.0F + 0x3p-11F;
  for (const Dtype dtype : {Dtype::float32, Dtype::tfloat32}) {
    on_core([&] {
      const Tensor one = on_sbuf({1, 1}, dtype, {1});
      const Tensor values = on_sbuf({1, 4}, dtype, {above, tie, odd_tie, INFINITY});
      Tensor acc = nl::ndarray({1, 4}, Dtype::float32, nl::psum);
      nisa::nc_matmul(acc, one, values);
      const std::vector<float> exact = {above, tie, odd_tie, INFINITY};
      const std::vector<float> rounded = {1.0F + 0x1p-10F, 1.0F, 1.0F + 0x1p-9F, INFINITY};
      CHECK(bring(acc) == (dtype == Dtype::float32 ? exact : rounded));
      const Tensor full = host({1, 1}, dtype, {0});  // a NaN that rounding would carry into the sign
      const uint32_t nan = 0x7fffffffU;
      std::memcpy(full.allocation()->data, &nan, sizeof nan);
      Tensor tile = nl::ndarray({1, 1}, dtype);
      nisa::dma_copy(tile, full);
      nisa::nc_matmul(acc(all, ds(0, 1)), one, tile, {.accumulate = false});
      CHECK(std::isnan(bring(acc)[0]));
    });
  }
}

TEST_CASE("nc_matmul: double_row sums over partitions and over both rows of each") {
  on_core([] {
    const std::vector<float> left = quarters(int64_t{128} * 2 * 5, 1),
                             right = quarters(int64_t{128} * 2 * 40, 2);
    const Tensor a = on_sbuf({128, 2, 5}, Dtype::float8_e4m3, left);
    const Tensor b = on_sbuf({128, 2, 40}, Dtype::float8_e5m2, right);
    Tensor acc = nl::ndarray({5, 40}, Dtype::float32, nl::psum);
    nisa::nc_matmul(acc, a, b, {.perf_mode = MatmulPerfMode::double_row});
    CHECK(bring(acc) == product(left, right, 256));
  });
}

TEST_CASE("nc_matmul: trn3 takes wide moving tiles and sums into bfloat16") {
  RunOptions trn3;
  trn3.generation = Generation::trn3;
  on_core(
      [] {
        const Pair a(32, 4, 1024, 1), b(32, 4, 1024, 2);
        Tensor acc = nl::ndarray({4, 1024}, Dtype::bfloat16, nl::psum);
        nisa::nc_matmul(acc, a.stationary, a.moving);
        nisa::nc_matmul(acc, b.stationary, b.moving);
        std::vector<float> expected(4096), first = a.expected();
        std::vector<std::byte> bits(8192);
        from_float(first.data(), Dtype::bfloat16, bits.data(), 4096);
        to_float(bits.data(), Dtype::bfloat16, first.data(), 4096);
        expected = sum(first, b.expected());
        from_float(expected.data(), Dtype::bfloat16, bits.data(), 4096);
        to_float(bits.data(), Dtype::bfloat16, expected.data(), 4096);
        CHECK(bring(acc) == expected);
      },
      trn3);
}

TEST_CASE("nc_matmul: reads of unwritten operands are refused") {
  const Broken error = broken([] {
    const Pair a(16, 8, 32, 1);
    Tensor moving = nl::ndarray({16, 32}, Dtype::bfloat16);
    nisa::dma_copy(moving(all, ds(0, 31)), host({16, 31}, Dtype::bfloat16, quarters(496, 1)));
    Tensor acc = nl::ndarray({8, 32}, Dtype::float32, nl::psum);
    nisa::nc_matmul(acc, a.stationary, moving);
  });
  CHECK(error.rule == "memory.unwritten");
  CHECK(error.says("nc_matmul("));
}
