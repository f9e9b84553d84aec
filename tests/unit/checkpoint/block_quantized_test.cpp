#include "titan/checkpoint/block_quantized.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

#include "tests/unit/checkpoint/checkpoint_files.h"
#include "titan/checkpoint/tensor_bytes.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

TensorView quantized_view(const std::string& name, const at::Tensor& tensor) {
  return {name,
          safetensors_dtype(tensor.scalar_type()),
          tensor.sizes().vec(),
          {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

}  // namespace

TEST_CASE("block FP8 is multiplied by the scale of its 128 x 128 block, whatever the borders and dtypes") {
  constexpr int64_t kRows = 300, kColumns = 200;
  const at::Tensor plain =
      (at::arange(kRows * kColumns, at::kFloat).remainder(17) - 8).view({kRows, kColumns});
  const at::Tensor scale = (at::arange(6, at::kFloat).view({3, 2}) + 1) / 4;
  for (const auto type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const at::Tensor weight = plain.to(type);
    for (const auto scale_type : {at::kFloat, at::kBFloat16}) {
      for (const auto target_type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor typed_scale = scale.to(scale_type);
        const at::Tensor target = at::zeros({kRows, kColumns}, target_type);
        dequantize_into(quantized_view("w", weight), quantized_view("w_scale_inv", typed_scale),
                        Block::whole({kRows, kColumns}), target);
        const at::Tensor numbers = weight.to(at::kFloat);
        at::Tensor expected = at::zeros({kRows, kColumns}, at::kFloat);
        for (int64_t row = 0; row < kRows; ++row) {
          for (int64_t block = 0; block < 2; ++block) {
            const int64_t begin = block * 128, count = std::min<int64_t>(128, kColumns - begin);
            const double factor = scale[row / 128][block].item<double>();
            expected[row].narrow(0, begin, count).copy_(numbers[row].narrow(0, begin, count) * factor);
          }
        }
        CHECK(at::equal(target, expected.to(target_type)));
      }
    }
  }
}

TEST_CASE("scales of another shape or dtype are errors that name both") {
  const at::Tensor weight = at::zeros({130, 10}, at::kFloat8_e4m3fn);
  const auto error_with = [&](const at::Tensor& scale) {
    return error_of([&] { check_block_scale(quantized_view("w", weight), quantized_view("s", scale)); });
  };
  CHECK(error_with(at::zeros({2, 1}, at::kFloat)) == "");
  CHECK(contains(error_with(at::zeros({1, 1}, at::kFloat)),
                 "the scales s have shape [1, 1]: a weight of [130, 10]"));
  CHECK(contains(error_with(at::zeros({2, 1}, at::kByte)), "U8: expected F32 or BF16"));
  const at::Tensor vector = at::zeros({4}, at::kFloat8_e4m3fn);
  CHECK(
      contains(error_of([&] { check_block_scale(quantized_view("w", vector), quantized_view("s", vector)); }),
               "belong to matrices"));
}
