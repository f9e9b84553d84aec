#include <doctest/doctest.h>

#include "tests/unit/nki/moving.h"

using namespace titan::nki;
using namespace titan::nki::moving;

namespace {

constexpr int64_t kRows = 6, kWidth = 5;

Tensor table() { return host({kRows, kWidth}, Dtype::float32, counting(kRows * kWidth)); }

Tensor gather_view(const Tensor& from, const Tensor& indices) {
  return from.ap({.pattern = {{kWidth, indices.size(0)}, {1, kWidth}}, .vector_offset = indices});
}

/// Rows of the table for some indices, or what was there before.
std::vector<float> rows_of(const std::vector<int64_t>& indices, float otherwise) {
  std::vector<float> rows;
  for (const int64_t index : indices) {
    for (int64_t j = 0; j < kWidth; ++j) {
      const bool inside = index >= 0 && index < kRows;
      rows.push_back(inside ? static_cast<float>(index * kWidth + j) : otherwise);
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("dma_copy: a register or a number of SBUF moves the whole view by that many indices") {
  const Tensor in = table();
  const Tensor by_register = host({2, kWidth}, Dtype::float32, std::vector<float>(10));
  const Tensor by_tensor = host({2, kWidth}, Dtype::bfloat16, std::vector<float>(10));
  const Tensor columns = host({kRows, 2}, Dtype::float32, std::vector<float>(12));
  on_core([&] {
    const Register three(3);
    const Tensor two = on_sbuf({1, 1}, Dtype::int32, {2});
    nisa::dma_copy(by_register, in.ap({.pattern = {{kWidth, 2}, {1, kWidth}}, .scalar_offset = three}));
    nisa::dma_copy(by_tensor, in.ap({.pattern = {{kWidth, 2}, {1, kWidth}}, .scalar_offset = two}));
    nisa::dma_copy(columns,
                   in.ap({.pattern = {{kWidth, kRows}, {1, 2}}, .scalar_offset = three, .indirect_dim = 1}));
  });
  CHECK(numbers(by_register) == rows_of({3, 4}, 0));
  CHECK(numbers(by_tensor) == rows_of({2, 3}, 0));
  CHECK(numbers(columns) == std::vector<float>{3, 4, 8, 9, 13, 14, 18, 19, 23, 24, 28, 29});
}

TEST_CASE("dma_copy: a run-time offset on chip moves along the free dimension") {
  const Tensor in = host({4, 8}, Dtype::float32, counting(32));
  on_core([&] {
    const Register two(2);
    Tensor tile = nl::ndarray({4, 8}, Dtype::float32);
    nisa::dma_copy(tile, in);
    const Tensor view = tile.ap({.pattern = {{8, 4}, {1, 3}}, .scalar_offset = two, .indirect_dim = 1});
    const Tensor out = host({4, 3}, Dtype::float32, std::vector<float>(12));
    nisa::dma_copy(out, view);
    CHECK(numbers(out) == std::vector<float>{2, 3, 4, 10, 11, 12, 18, 19, 20, 26, 27, 28});
  });
}

TEST_CASE("dma_copy: a vector of indices gathers rows, and scatters them") {
  const Tensor in = table();
  const Tensor out = host({kRows, kWidth}, Dtype::float32, std::vector<float>(kRows * kWidth, -1.0F));
  on_core([&] {
    const Tensor indices = on_sbuf({4, 1}, Dtype::int32, {5, 0, 0, 3});
    Tensor tile = nl::ndarray({4, kWidth}, Dtype::float32);
    nisa::dma_copy(tile, gather_view(in, indices));
    CHECK(bring(tile) == rows_of({5, 0, 0, 3}, 0));
    const Tensor places = on_sbuf({4, 1}, Dtype::uint32, {1, 2, 4, 0});
    nisa::dma_copy(gather_view(out, places), tile);
  });
  CHECK(numbers(out) == [] {
    std::vector<float> expected = rows_of({3, 5, 0, -1, 0, -1}, -1);
    return expected;
  }());
}

TEST_CASE("dma_copy: rows whose index is out of bounds are skipped on request, and stay") {
  const Tensor in = table();
  const Tensor out = host({kRows, kWidth}, Dtype::float32, std::vector<float>(kRows * kWidth, -1.0F));
  on_core([&] {
    const Tensor indices = on_sbuf({4, 1}, Dtype::int32, {2, -1, 6, 1});
    Tensor tile = nl::ndarray({4, kWidth}, Dtype::float32);
    nisa::memset(tile, 9);
    nisa::dma_copy(tile, gather_view(in, indices), {.oob_mode = OobMode::skip});
    CHECK(bring(tile) == rows_of({2, -1, 6, 1}, 9));
    nisa::dma_copy(gather_view(out, indices), tile, {.oob_mode = OobMode::skip});
    const Register far(kRows);
    nisa::dma_copy(out.ap({.pattern = {{kWidth, 1}, {1, kWidth}}, .scalar_offset = far}), tile(ds(0, 1)),
                   {.oob_mode = OobMode::skip});
    nisa::dma_copy(out(ds(0, 1)), in.ap({.pattern = {{kWidth, 1}, {1, kWidth}}, .scalar_offset = far}),
                   {.oob_mode = OobMode::skip});
  });
  CHECK(numbers(out) == rows_of({-1, 1, 2, -1, -1, -1}, -1));
}

TEST_CASE("dma_copy: an index out of bounds is an error that names index, limit and row") {
  const Tensor in = table();
  const auto gather = [&](const std::vector<float>& numbers_of_rows) {
    return broken([&] {
      const Tensor indices = on_sbuf({3, 1}, Dtype::int32, numbers_of_rows);
      Tensor tile = nl::ndarray({3, kWidth}, Dtype::float32);
      nisa::dma_copy(tile, gather_view(in, indices));
    });
  };
  const Broken high = gather({0, 6, 1});
  CHECK(high.rule == "dma.out-of-bounds");
  CHECK(high.says("row 1 of src"));
  CHECK(high.says("index 6 is not within 0 .. 5"));
  CHECK(gather({0, 1, -2}).says("row 2 of src"));
  CHECK(gather({0, 1, 5}).rule == "none");

  const Broken scalar = broken([&] {
    const Register five(5);
    Tensor tile = nl::ndarray({2, kWidth}, Dtype::float32);
    nisa::dma_copy(tile, in.ap({.pattern = {{kWidth, 2}, {1, kWidth}}, .scalar_offset = five}));
  });
  const Broken on_chip = broken([&] {
    const Register two(2);
    Tensor tile = nl::ndarray({4, 2, 8}, Dtype::float32), out = nl::ndarray({4, 8}, Dtype::float32);
    nisa::memset(tile, 0);
    nisa::memset(out, 0);  // lies where index 2 would be
    nisa::dma_copy(out, tile.ap({.pattern = {{16, 4}, {1, 8}}, .scalar_offset = two, .indirect_dim = 1}));
  });
  CHECK(on_chip.rule == "dma.out-of-bounds");
  CHECK(scalar.rule == "dma.out-of-bounds");
  CHECK(scalar.says("index 5 is not within 0 .. 4"));
}

TEST_CASE("dma_copy: indices and rows that were never written are refused") {
  const Tensor in = table();
  const Broken index = broken([&] {
    Tensor indices = nl::ndarray({3, 1}, Dtype::int32);
    Tensor tile = nl::ndarray({3, kWidth}, Dtype::float32);
    nisa::dma_copy(tile, gather_view(in, indices));
  });
  CHECK(index.rule == "memory.unwritten");
  const Broken row = broken([&] {
    const Tensor indices = on_sbuf({2, 1}, Dtype::int32, {0, 4});
    Tensor half = nl::ndarray({kRows, kWidth}, Dtype::float32, nl::hbm);
    nisa::dma_copy(half(ds(0, 3)), in(ds(0, 3)));
    Tensor tile = nl::ndarray({2, kWidth}, Dtype::float32);
    nisa::dma_copy(tile, gather_view(half, indices));
  });
  CHECK(row.rule == "memory.unwritten");
  CHECK(row.says("[1, 0]"));
}
