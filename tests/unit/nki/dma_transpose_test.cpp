#include <doctest/doctest.h>

#include "tests/unit/nki/moving.h"

using namespace titan::nki;
using namespace titan::nki::moving;

namespace {

/// The element of `in` at the place that is `index` after the dimensions took the order `axes`.
float permuted(const std::vector<float>& in, const std::vector<int64_t>& shape,
               const std::vector<int64_t>& axes, int64_t number) {
  std::vector<int64_t> place(shape.size());
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t size = shape[static_cast<size_t>(axes[i])];
    place[static_cast<size_t>(axes[i])] = number % size;
    number /= size;
  }
  int64_t at = 0;
  for (size_t i = 0; i < shape.size(); ++i) at = at * shape[i] + place[i];
  return in[static_cast<size_t>(at)];
}

void check_transpose(const std::vector<int64_t>& shape, const std::vector<int64_t>& axes, Dtype dtype) {
  const std::vector<float> values = quarters(size_of(shape), 5);
  const Tensor in = host(shape, dtype, values);
  std::vector<int64_t> to;
  for (const int64_t axis : axes) to.push_back(shape[static_cast<size_t>(axis)]);
  on_core([&] {
    Tensor tile = nl::ndarray(to, dtype);
    nisa::dma_transpose(tile, in, {.axes = axes});
    const std::vector<float> got = bring(tile);
    int64_t wrong = 0;
    for (int64_t i = 0; i < in.numel(); ++i) {
      wrong += got[static_cast<size_t>(i)] != permuted(values, shape, axes, i) ? 1 : 0;
    }
    CHECK(wrong == 0);
  });
}

}  // namespace

TEST_CASE("dma_transpose: the three orders move every element") {
  for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16, Dtype::float8_e4m3}) {
    check_transpose({16, 24}, {1, 0}, dtype);
    check_transpose({131, 7}, {1, 0}, dtype);
    check_transpose({6, 3, 10}, {2, 1, 0}, dtype);
    check_transpose({4, 3, 2, 12}, {3, 1, 2, 0}, dtype);
  }
}

TEST_CASE("dma_transpose: from SBUF, and from views") {
  on_core([] {
    const Tensor tile = on_sbuf({8, 6}, Dtype::float32, counting(48));
    Tensor out = nl::ndarray({3, 8}, Dtype::float32);
    nisa::dma_transpose(out, tile(all, Slice{1, Slice::kEnd, 2}));
    const std::vector<float> got = bring(out);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 8; ++j) CHECK(got[i * 8 + j] == static_cast<float>(j * 6 + 1 + i * 2));
    }
  });
}

TEST_CASE("dma_transpose: unwritten elements are named, run-time offsets are refused") {
  const Broken unwritten = broken([] {
    Tensor tile = nl::ndarray({4, 4}, Dtype::float32), out = nl::ndarray({4, 4}, Dtype::float32);
    nisa::dma_copy(tile(all, ds(0, 3)), host({4, 3}, Dtype::float32, counting(12)));
    nisa::dma_transpose(out, tile);
  });
  CHECK(unwritten.rule == "memory.unwritten");
  CHECK(unwritten.says("[0, 3]"));
  const Tensor in = host({6, 4}, Dtype::bfloat16, counting(24));
  const Broken indirect = broken([&] {
    const Register one(1);
    Tensor out = nl::ndarray({4, 2}, Dtype::bfloat16);
    nisa::dma_transpose(out, in.ap({.pattern = {{4, 2}, {1, 4}}, .scalar_offset = one}));
  });
  CHECK(indirect.rule == "dma_transpose.indirect");
}
