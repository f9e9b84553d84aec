#include <doctest/doctest.h>

#include <bit>
#include <limits>

#include "tests/unit/nki/kernel_error.h"
#include "tests/unit/nki/moving.h"

using namespace titan::nki;
using namespace titan::nki::moving;

TEST_CASE("dma_copy: elements go in the order of both access patterns") {
  const Tensor in = host({4, 6, 8}, Dtype::float32, counting(192));
  const Tensor out = host({96, 2}, Dtype::float32, std::vector<float>(192));
  on_core([&] {
    Tensor tile = nl::ndarray({6, 64}, Dtype::float32);
    // Into every second element from 1 on, in the order of the permuted tensor.
    nisa::dma_copy(tile(all, Slice{1, Slice::kEnd, 2}), in.permute({1, 0, 2}));
    // Back in the order of columns: partitions innermost.
    nisa::dma_copy(out, tile(all, Slice{1, Slice::kEnd, 2}).reshape({6, 32}));
  });
  const std::vector<float> got = numbers(out);
  size_t at = 0;
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int k = 0; k < 8; ++k) CHECK(got[at++] == static_cast<float>((j * 6 + i) * 8 + k));
    }
  }
}

TEST_CASE("dma_copy: a pattern by strides repeats, steps and reverses") {
  const Tensor in = host({4, 8}, Dtype::bfloat16, counting(32));
  const Tensor out = host({3, 2, 4}, Dtype::bfloat16, std::vector<float>(24));
  on_core([&] {
    // Rows 8 apart from element 2 on, each twice, elements 2 apart.
    nisa::dma_copy(out, in.ap({.pattern = {{8, 3}, {0, 2}, {2, 4}}, .offset = 1}));
  });
  const std::vector<float> got = numbers(out);
  size_t at = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 4; ++k) CHECK(got[at++] == static_cast<float>(1 + i * 8 + k * 2));
    }
  }
}

TEST_CASE("dma_copy: one dtype moves bits, two go by way of float32") {
  const Tensor in = host({1, 4}, Dtype::int32, {0, 0, 0, 0});
  auto* bits = reinterpret_cast<uint32_t*>(in.allocation()->data);
  bits[0] = 0x7fc12345U;  // as float32 a NaN with a payload
  bits[1] = 16777217U;    // no float32 holds it
  bits[2] = 0x80000001U;
  bits[3] = 7;
  const Tensor same = host({1, 4}, Dtype::int32, {0, 0, 0, 0});
  const Tensor cast = host({1, 4}, Dtype::float32, {0, 0, 0, 0});
  const Tensor narrow = host({1, 4}, Dtype::uint8, {0, 0, 0, 0});
  on_core([&] {
    Tensor tile = nl::ndarray({1, 4}, Dtype::int32);
    nisa::dma_copy(tile, in);
    nisa::dma_copy(same, tile);
    nisa::dma_copy(cast, tile);
    nisa::dma_copy(narrow, cast);
  });
  CHECK(std::memcmp(same.allocation()->data, bits, 16) == 0);
  CHECK(numbers(cast)[1] == 16777216.0F);
  CHECK(numbers(cast)[3] == 7.0F);
  CHECK(numbers(narrow) == std::vector<float>{255, 255, 0, 7});
}

TEST_CASE("dma_copy: every pair of dtypes converts, dense and strided, longer than a buffer") {
  const std::vector<Dtype> dtypes = {Dtype::float32,     Dtype::bfloat16, Dtype::float16, Dtype::float8_e4m3,
                                     Dtype::float8_e5m2, Dtype::int32,    Dtype::int16,   Dtype::int8};
  const int64_t count = 2500;
  std::vector<float> values = quarters(count, 7);
  for (float& value : values) value *= 4;
  for (const Dtype from : dtypes) {
    for (const Dtype to : dtypes) {
      INFO(dtype_name(from), " to ", dtype_name(to));
      const Tensor in = host({1, count}, from, values), out = host({1, count}, to, std::vector<float>(2500));
      on_core([&] {
        Tensor tile = nl::ndarray({1, 2 * count}, to);
        nisa::dma_copy(tile(all, Slice{0, Slice::kEnd, 2}), in);
        nisa::dma_copy(out, tile(all, Slice{0, Slice::kEnd, 2}));
      });
      CHECK(numbers(out) == values);
    }
  }
}

TEST_CASE("dma_copy: unwritten elements are refused by their place, written ones are not") {
  const Tensor out = host({2, 4}, Dtype::float32, std::vector<float>(8));
  const Tensor in = host({2, 2}, Dtype::float32, counting(4));
  const auto copy_from = [&](Buffer buffer) {
    return broken([&] {
      Tensor tile = nl::ndarray({2, 4}, Dtype::float32, buffer);
      nisa::dma_copy(tile(all, Slice{0, Slice::kEnd, 2}), in);
      nisa::dma_copy(out(all, Slice{0, Slice::kEnd, 2}), tile(all, Slice{0, Slice::kEnd, 2}));  // these were
      nisa::dma_copy(out, tile);
    });
  };
  for (const Buffer buffer : {Buffer::sbuf, Buffer::private_hbm, Buffer::shared_hbm}) {
    const Broken error = copy_from(buffer);
    INFO(buffer_name(buffer), ": ", error.what);
    CHECK(error.rule == "memory.unwritten");
    CHECK(error.says("[0, 1]"));
    CHECK(error.says("dma_copy_test.cpp"));
  }
  CHECK(numbers(out) == std::vector<float>{0, 0, 1, 0, 2, 0, 3, 0});
}

TEST_CASE("dma_copy: strided elements are unwritten though their neighbours were written") {
  const Tensor out = host({1, 4}, Dtype::float32, std::vector<float>(4));
  const Broken error = broken([&] {
    Tensor tile = nl::ndarray({1, 8}, Dtype::float32);
    nisa::memset(tile(all, ds(0, 4)), 1);
    nisa::dma_copy(out, tile(all, Slice{0, 8, 2}));
  });
  CHECK(error.rule == "memory.unwritten");
  CHECK(error.says("element [0, 2]"));
}

TEST_CASE("dma_copy: a tensor at an address is moved to and from its own partitions") {
  const Tensor out = host({1, 8}, Dtype::float32, std::vector<float>(8));
  on_core([&] {
    const nl::Address address{32, 4096};
    Tensor tile = nl::ndarray({4, 8}, Dtype::float32, {.address = address});
    nisa::dma_copy(tile, host({4, 8}, Dtype::float32, counting(32)));
    nisa::dma_copy(out, nl::ndarray({1, 8}, Dtype::float32, {.address = nl::Address{34, 4096}}));
  });
  CHECK(numbers(out) == std::vector<float>{16, 17, 18, 19, 20, 21, 22, 23});
}

TEST_CASE("dma_copy: a tile that outlives its kernel is not moved by another") {
  Tensor tile;
  on_core([&] {
    tile = nl::ndarray({1, 4}, Dtype::float32);
    nisa::memset(tile, 1);
  });
  const Tensor out = host({1, 4}, Dtype::float32, std::vector<float>(4));
  CHECK(broken([&] { nisa::dma_copy(out, tile); }).rule == "memory.core-gone");
}

TEST_CASE("dma_copy: overlapping views and whole tensors of one memory copy as if at once") {
  const Tensor in = host({1, 64}, Dtype::float32, counting(64));
  on_core([&] { nisa::dma_copy(in(all, ds(1, 63)), in(all, ds(0, 63))); });
  std::vector<float> expected = counting(63);
  expected.insert(expected.begin(), 0);
  CHECK(numbers(in) == expected);
}

TEST_CASE("a tensor of a shape alone cannot be moved when kernels run on data") {
  const Tensor shape_only = host_tensor("x", {4, 8}, Dtype::float32, nullptr, nullptr);
  CHECK(broken_rule([&] {
          on_core([&] { nisa::dma_copy(nl::ndarray({4, 8}, Dtype::float32), shape_only); });
        }) == "memory.without-data");
  CHECK(broken_rule([&] {
          on_core([&] {
            Tensor tile = nl::ndarray({4, 8}, Dtype::float32);
            nisa::memset(tile, 0);
            nisa::dma_copy(shape_only, tile);
          });
        }) == "memory.without-data");
}
