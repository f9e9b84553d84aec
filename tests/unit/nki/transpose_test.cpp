#include <doctest/doctest.h>

#include "tests/unit/nki/moving.h"

using namespace titan::nki;
using namespace titan::nki::moving;

namespace {

std::vector<float> transposed(const std::vector<float>& values, size_t rows) {
  const size_t cols = values.size() / rows;
  std::vector<float> out(values.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < cols; ++j) out[j * rows + i] = values[i * cols + j];
  }
  return out;
}

/// A NaN with a payload at [1, 0], and an infinity at [0, 1], of float32.
Tensor special_tile() {
  const Tensor in = host({2, 2}, Dtype::float32, {1, INFINITY, 0, -0.0F});
  reinterpret_cast<uint32_t*>(in.allocation()->data)[2] = 0x7fc12345U;
  Tensor tile = nl::ndarray({2, 2}, Dtype::float32);
  nisa::dma_copy(tile, in);
  return tile;
}

std::vector<uint32_t> bits_of(const Tensor& tile) {
  Tensor copy = nl::ndarray({2, 2}, Dtype::float32);
  nisa::tensor_copy(copy, tile);
  const Tensor out = host({2, 2}, Dtype::float32, {0, 0, 0, 0});
  nisa::dma_copy(out, copy);
  const auto* bits = reinterpret_cast<const uint32_t*>(out.allocation()->data);
  return {bits, bits + 4};
}

const std::vector<uint32_t> kSpecialTransposed = {0x3f800000U, 0x7fc12345U, 0x7f800000U, 0x80000000U};

}  // namespace

TEST_CASE("nc_transpose: TensorE transposes all sizes and dtypes into PSUM") {
  for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16, Dtype::float8_e4m3, Dtype::int32}) {
    for (const auto& [p, f] : {std::pair<int64_t, int64_t>{128, 128}, {1, 1}, {17, 100}, {128, 3}}) {
      INFO(dtype_name(dtype), " ", p, " x ", f);
      on_core([&, p = p, f = f] {
        std::vector<float> values = quarters(p * f, 9);
        for (float& value : values) value *= 4;
        const Tensor data = on_sbuf({p, f}, dtype, values);
        Tensor out = nl::ndarray({f, p}, dtype, nl::psum);
        nisa::nc_transpose(out, data);
        CHECK(bring(out) == transposed(values, static_cast<size_t>(p)));
      });
    }
  }
}

TEST_CASE("nc_transpose: VectorE transposes up to 32 x 32 within SBUF, views and in place too") {
  on_core([] {
    const std::vector<float> values = quarters(int64_t{32} * 64, 1);
    const Tensor wide = on_sbuf({32, 64}, Dtype::float16, values);
    Tensor out = nl::ndarray({32, 32}, Dtype::float16);
    nisa::nc_transpose(out, wide(all, Slice{1, 64, 2}), {.engine = Engine::vector});
    std::vector<float> odd;
    for (size_t i = 0; i < 32; ++i) {
      for (size_t j = 0; j < 32; ++j) odd.push_back(values[i * 64 + 2 * j + 1]);
    }
    CHECK(bring(out) == transposed(odd, 32));
    nisa::nc_transpose(out, out, {.engine = Engine::vector});
    CHECK(bring(out) == odd);
  });
}

TEST_CASE("nc_transpose and a transposing nc_matmul move bits: NaNs, infinities, signs of zero") {
  on_core([] {
    const Tensor tile = special_tile();
    Tensor out = nl::ndarray({2, 2}, Dtype::float32, nl::psum),
           other = nl::ndarray({2, 2}, Dtype::float32, nl::psum);
    nisa::nc_transpose(out, tile);
    CHECK(bits_of(out) == kSpecialTransposed);
    const Tensor identity = on_sbuf({2, 2}, Dtype::float32, {1, 0, 0, 1});
    nisa::nc_matmul(other, tile, identity, {.is_transpose = true});
    CHECK(bits_of(other) == kSpecialTransposed);
    nisa::nc_matmul(other, tile, identity, {.is_transpose = true});
    CHECK(bits_of(other) == kSpecialTransposed);  // it does not add
  });
}

TEST_CASE("nc_matmul: a transpose keeps the input's dtype and takes an identity") {
  on_core([] {
    const std::vector<float> values = quarters(int64_t{64} * 100, 2);
    const Tensor data = on_sbuf({64, 100}, Dtype::bfloat16, values);
    Tensor out = nl::ndarray({100, 64}, Dtype::bfloat16, nl::psum);
    nisa::nc_matmul(out, data, nl::shared_identity_matrix(64, Dtype::bfloat16), {.is_transpose = true});
    CHECK(bring(out) == transposed(values, 64));
  });
  const auto transpose_by = [](const std::vector<float>& moving, std::optional<bool> accumulate) {
    return broken([&] {
      Tensor out = nl::ndarray({3, 2}, Dtype::bfloat16, nl::psum);
      nisa::nc_matmul(out, on_sbuf({2, 3}, Dtype::bfloat16, counting(6)),
                      on_sbuf({2, 2}, Dtype::bfloat16, moving),
                      {.is_transpose = true, .accumulate = accumulate});
    });
  };
  CHECK(transpose_by({1, 0, 0, 1}, {}).rule == "none");
  CHECK(transpose_by({0, 1, 1, 0}, {}).rule == "none");
  CHECK(transpose_by({1, 0, 0, 2}, {}).rule == "nc_matmul.transpose-moving");
  CHECK(transpose_by({1, 0, 1, 1}, {}).says("element [1, 0]"));
  CHECK(transpose_by({1, 0, 0, 0}, {}).says("column 1"));
  CHECK(transpose_by({1, 0, 0, 1}, true).rule == "nc_matmul.transpose-accumulate");
}

TEST_CASE("nc_matmul: a transpose whose dst has moving's dtype only is refused") {
  const Broken error = broken([] {
    Tensor out = nl::ndarray({3, 2}, Dtype::float16, nl::psum);
    nisa::nc_matmul(out, on_sbuf({2, 3}, Dtype::bfloat16, counting(6)),
                    nl::shared_identity_matrix(2, Dtype::float16), {.is_transpose = true});
  });
  CHECK(error.rule == "nc_matmul.transpose-dtype");
}

TEST_CASE("a transpose into places of a matmul's sums is overwritten by the next matmul, and is no sum") {
  for (const bool by_matmul : {false, true}) {
    const auto transposed_sums = [=](std::optional<bool> accumulate) {
      const Tensor a = on_sbuf({2, 2}, Dtype::float32, {1, 2, 3, 4});
      const Tensor identity = on_sbuf({2, 2}, Dtype::float32, {1, 0, 0, 1});
      const Tensor sums = nl::ndarray({2, 4}, Dtype::float32, nl::psum);
      const Tensor left = sums(all, ds(0, 2)), right = sums(all, ds(2, 2));
      nisa::nc_matmul(left, identity, a);
      nisa::nc_matmul(right, identity, a);
      if (by_matmul)
        nisa::nc_matmul(left, a, identity, {.is_transpose = true});
      else
        nisa::nc_transpose(left, a);
      CHECK(bring(left) == std::vector<float>{1, 3, 2, 4});
      nisa::nc_matmul(left, identity, a, {.accumulate = accumulate});
      CHECK(bring(left) == std::vector<float>{1, 2, 3, 4});
      nisa::nc_matmul(right, identity, a);  // its sums are left alone
      CHECK(bring(right) == std::vector<float>{2, 4, 6, 8});
    };
    on_core([&] { transposed_sums({}); });
    CHECK(broken([&] { transposed_sums(true); }).rule == "nc_matmul.accumulate-untouched");
  }
}

TEST_CASE("nc_transpose: unwritten elements are refused, sizes and places too") {
  const Broken unwritten = broken([] {
    Tensor data = nl::ndarray({8, 8}, Dtype::float32), out = nl::ndarray({8, 8}, Dtype::float32, nl::psum);
    nisa::memset(data(all, ds(1, 7)), 0);
    nisa::nc_transpose(out, data);
  });
  CHECK(unwritten.rule == "memory.unwritten");
  const Broken large = broken([] {
    Tensor data = nl::ndarray({64, 64}, Dtype::float32), out = nl::ndarray({64, 64}, Dtype::float32);
    nisa::memset(data, 0);
    nisa::nc_transpose(out, data, {.engine = Engine::vector});
  });
  CHECK(large.rule == "nc_transpose.size");
}
