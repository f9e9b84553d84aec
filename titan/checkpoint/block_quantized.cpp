#include "titan/checkpoint/block_quantized.h"

#include <algorithm>

#include "titan/base/error.h"
#include "titan/checkpoint/tensor_bytes.h"

namespace titan {
namespace {

constexpr int64_t kQuantBlock = 128;

int64_t num_blocks(int64_t size) { return (size + kQuantBlock - 1) / kQuantBlock; }

}  // namespace

void check_block_scale(const TensorView& weight, const TensorView& scale) {
  if (weight.shape.size() != 2) {
    throw ValueError("{} of shape {} is {}: block scales belong to matrices", weight.name,
                     shape_text(weight.shape), dtype_name(weight.dtype));
  }
  if (!is_plain_float(scale.dtype)) {
    throw ValueError("the scales {} are {}: expected F32 or BF16", scale.name, dtype_name(scale.dtype));
  }
  const std::vector<int64_t> expected = {num_blocks(weight.shape[0]), num_blocks(weight.shape[1])};
  if (scale.shape == expected) return;
  throw ValueError("the scales {} have shape {}: a weight of {} in blocks of 128 x 128 has {}", scale.name,
                   shape_text(scale.shape), shape_text(weight.shape), shape_text(expected));
}

void dequantize_into(const TensorView& weight, const TensorView& scale, const Block& block,
                     const at::Tensor& destination) {
  check_block_scale(weight, scale);
  check(std::ranges::equal(destination.sizes(), block.shape), "the destination has the block's shape");
  const at::Tensor scale_BC = to_tensor(scale).to(at::kFloat);
  const at::Tensor target_OI = destination.detach();
  const int64_t end = block.offset[0] + block.shape[0];
  for (int64_t row = block.offset[0]; row < end;) {
    const int64_t count = std::min(kQuantBlock - row % kQuantBlock, end - row);
    const Block band = {{row, block.offset[1]}, {count, block.shape[1]}};
    const at::Tensor scale_I = scale_BC.select(0, row / kQuantBlock)
                                   .repeat_interleave(kQuantBlock)
                                   .narrow(0, block.offset[1], block.shape[1]);
    target_OI.narrow(0, row - block.offset[0], count)
        .copy_(block_tensor(weight, band).to(at::kFloat).mul_(scale_I));
    row += count;
  }
}

}  // namespace titan
