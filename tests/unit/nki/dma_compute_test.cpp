#include <doctest/doctest.h>

#include "tests/unit/nki/moving.h"

using namespace titan::nki;
using namespace titan::nki::moving;

namespace {

Tensor rows_at(const Tensor& of, const Tensor& indices) {
  return of.ap({.pattern = {{of.size(1), indices.size(0)}, {1, of.size(1)}}, .vector_offset = indices});
}

}  // namespace

TEST_CASE("dma_compute: sums sources of several dtypes in float32, also onto one of them") {
  const Tensor a = host({3, 4}, Dtype::bfloat16, quarters(12, 1)),
               b = host({3, 4}, Dtype::float32, quarters(12, 2));
  const Tensor c = host({3, 4}, Dtype::float16, quarters(12, 3));
  on_core([&] {
    Tensor sum = nl::ndarray({3, 4}, Dtype::float32);
    nisa::dma_compute(sum, {a, b, c});
    const std::vector<float> got = bring(sum), x = numbers(a), y = numbers(b), z = numbers(c);
    for (size_t i = 0; i < 12; ++i) CHECK(got[i] == x[i] + y[i] + z[i]);
    nisa::dma_compute(sum, {sum, b});
    const std::vector<float> twice = bring(sum);
    for (size_t i = 0; i < 12; ++i) CHECK(twice[i] == got[i] + y[i]);
  });
  // 1 + 2^-8 + 2^-8 is 1 + 2^-7 in float32; rounded to bfloat16 in between it would be 1.
  const Tensor one = host({1, 1}, Dtype::bfloat16, {1}), small = host({1, 1}, Dtype::bfloat16, {0.00390625F});
  const Tensor out = host({1, 1}, Dtype::bfloat16, {0});
  on_core([&] { nisa::dma_compute(out, {one, small, small}); });
  CHECK(numbers(out)[0] == 1.0078125F);
  // Nothing is added to the first source: negative zeros stay.
  const Tensor zero = host({1, 1}, Dtype::float32, {-0.0F}), zeros = host({1, 1}, Dtype::float32, {1});
  on_core([&] { nisa::dma_compute(zeros, {zero, zero}); });
  CHECK(numbers(zeros)[0] == 0);
  CHECK(std::signbit(numbers(zeros)[0]));
}

TEST_CASE("dma_compute: operands begin where a register says when it runs") {
  const Tensor in = host({4, 3}, Dtype::float32, counting(12)),
               out = host({4, 3}, Dtype::float32, std::vector<float>(12));
  on_core([&] {
    const Register two(2), one(1);
    const auto row = [](const Tensor& of, const Register& at) {
      return of.ap({.pattern = {{3, 1}, {1, 3}}, .scalar_offset = at});
    };
    nisa::dma_compute(row(out, one), {row(in, two), row(in, one)});
  });
  CHECK(numbers(out) == std::vector<float>{0, 0, 0, 9, 11, 13, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("dma_compute: with a vector offset adds a tile to rows or rows to a tile, and nothing else") {
  const Tensor out = host({5, 3}, Dtype::float32, counting(15)),
               other = host({5, 3}, Dtype::float32, counting(15));
  const auto rule_of = [&](const std::function<void(const Tensor& rows, const Tensor& tile)>& sum) {
    return broken([&] {
             const Tensor indices = on_sbuf({2, 1}, Dtype::int32, {4, 1});
             sum(rows_at(out, indices), on_sbuf({2, 3}, Dtype::float32, counting(6)));
           })
        .rule;
  };
  const std::string refused = "dma_compute.indirect-sources";
  using T = const Tensor&;
  CHECK(rule_of([](T rows, T tile) { nisa::dma_compute(rows, {rows, tile}); }) == "none");
  CHECK(rule_of([](T rows, T tile) { nisa::dma_compute(tile, {rows, tile}); }) == "none");
  CHECK(rule_of([](T rows, T tile) { nisa::dma_compute(rows, {tile}); }) == refused);
  CHECK(rule_of([](T rows, T) { nisa::dma_compute(rows, {rows}); }) == refused);
  CHECK(rule_of([](T rows, T tile) { nisa::dma_compute(rows, {tile, tile}); }) == refused);
  CHECK(rule_of([](T rows, T) { nisa::dma_compute(rows, {rows, rows}); }) == refused);
  CHECK(rule_of([](T rows, T tile) { nisa::dma_compute(rows, {rows, tile, tile}); }) == refused);
  CHECK(rule_of([](T rows, T tile) { nisa::dma_compute(tile, {rows}); }) == refused);
  CHECK(rule_of([](T rows, T tile) { nisa::dma_compute(tile, {tile, rows, rows}); }) == refused);
  CHECK(rule_of([&](T rows, T) { nisa::dma_compute(rows, {rows, other(ds(0, 2))}); }) == refused);
  CHECK(rule_of([&](T rows, T) { nisa::dma_compute(other(ds(0, 2)), {other(ds(0, 2)), rows}); }) == refused);
  // Other rows, other indices, another tile.
  CHECK(rule_of([&](T rows, T tile) {
          nisa::dma_compute(rows, {rows_at(other, *rows.indirection().offsets), tile});
        }) == refused);
  CHECK(rule_of([&](T rows, T tile) {
          nisa::dma_compute(rows, {rows_at(out, on_sbuf({2, 1}, Dtype::int32, {4, 1})), tile});
        }) == refused);
  CHECK(rule_of([](T rows, T tile) {
          nisa::dma_compute(on_sbuf({2, 3}, Dtype::float32, counting(6)), {tile, rows});
        }) == refused);
}

TEST_CASE("dma_compute: takes 16 sources") {
  const Tensor ones = host({2, 2}, Dtype::float32, {1, 1, 1, 1}),
               out = host({2, 2}, Dtype::float32, {0, 0, 0, 0});
  on_core([&] { nisa::dma_compute(out, std::vector<Tensor>(16, ones)); });
  CHECK(numbers(out) == std::vector<float>{16, 16, 16, 16});
  CHECK(broken([&] { nisa::dma_compute(out, std::vector<Tensor>(17, ones)); }).rule != "none");
}

TEST_CASE("dma_compute: adds into rows by index, and gathers rows to add") {
  const Tensor out = host({5, 3}, Dtype::float32, counting(15));
  on_core([&] {
    const Tensor indices = on_sbuf({2, 1}, Dtype::int32, {4, 1});
    const Tensor tile = on_sbuf({2, 3}, Dtype::float32, {100, 100, 100, 200, 200, 200});
    nisa::dma_compute(rows_at(out, indices), {rows_at(out, indices), tile});
    nisa::dma_compute(tile, {tile, rows_at(out, indices)});
    CHECK(bring(tile) == std::vector<float>{212, 213, 214, 403, 404, 405});
    // The same in the other order.
    const Tensor one = on_sbuf({2, 3}, Dtype::float32, {1, 1, 1, 1, 1, 1});
    nisa::dma_compute(rows_at(out, indices), {one, rows_at(out, indices)});
  });
  CHECK(numbers(out) == std::vector<float>{0, 1, 2, 204, 205, 206, 6, 7, 8, 9, 10, 11, 113, 114, 115});
}

TEST_CASE("dma_compute: rows with one index and rows out of bounds are refused") {
  const Tensor out = host({5, 3}, Dtype::float32, counting(15));
  const auto add_at = [&](const std::vector<float>& places) {
    return broken([&] {
      const Tensor indices = on_sbuf({3, 1}, Dtype::int32, places);
      nisa::dma_compute(rows_at(out, indices),
                        {rows_at(out, indices), on_sbuf({3, 3}, Dtype::float32, counting(9))});
    });
  };
  const Broken twice = add_at({2, 0, 2});
  CHECK(twice.rule == "dma_compute.unique-indices");
  CHECK(twice.says("rows 0 and 2"));
  CHECK(add_at({2, 0, 5}).rule == "dma.out-of-bounds");
  CHECK(add_at({2, 0, 4}).rule == "none");
}

TEST_CASE("dma_compute: sources that were never written are refused") {
  const Tensor out = host({1, 4}, Dtype::float32, counting(4));
  const Broken error = broken([&] {
    Tensor tile = nl::ndarray({1, 4}, Dtype::float32);
    nisa::dma_compute(out, {out, tile});
  });
  CHECK(error.rule == "memory.unwritten");
}
