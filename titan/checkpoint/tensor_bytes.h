#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>

#include "titan/checkpoint/safetensors_reader.h"

namespace titan {

/// torch's type for elements of a file. ValueError naming the dtype where torch has none (F6, F4).
at::ScalarType scalar_type(SafetensorsDtype dtype);

/// The file's type for torch's elements. ValueError where the format has none (quantised integers).
SafetensorsDtype safetensors_dtype(at::ScalarType type);

/// A copy of the tensor, in its own dtype.
at::Tensor to_tensor(const TensorView& view);

/// Fills `destination`, which has the view's shape, converting in blocks of a few megabytes.
void copy_into(const TensorView& view, const at::Tensor& destination);

/// Hands out the row-major elements of `source` (any device, layout and dtype) as `type`, in blocks of a few
/// megabytes; no whole copy is made of a contiguous CPU tensor.
void for_each_block(const at::Tensor& source, at::ScalarType type,
                    const std::function<void(std::span<const std::byte>)>& consume);

}  // namespace titan
