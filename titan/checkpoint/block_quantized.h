#pragma once

#include <ATen/core/Tensor.h>

#include "titan/checkpoint/safetensors_reader.h"
#include "titan/nn/placement.h"

namespace titan {

/// Ending of the name of the scales that belong to an FP8 weight: `x.weight` has `x.weight_scale_inv`.
inline constexpr std::string_view kScaleSuffix = "_scale_inv";

/// ValueError (without the file's name) unless `weight` is a matrix of FP8 and `scale` a plain float with one
/// value for each 128 x 128 block of it.
void check_block_scale(const TensorView& weight, const TensorView& scale);

/// destination[i, j] = weight[r, c] * scale[r / 128, c / 128] for the row r and the column c of the whole
/// weight that are (i, j) in `block`, in fp32, converted at the end: DeepSeek's and Qwen's block FP8. The
/// borders of `block` need not be multiples of 128. Takes at most 128 rows at a time.
void dequantize_into(const TensorView& weight, const TensorView& scale, const Block& block,
                     const at::Tensor& destination);

}  // namespace titan
