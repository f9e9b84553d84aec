#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>

#include "titan/checkpoint/safetensors_reader.h"
#include "titan/nn/placement.h"

namespace titan {

/// torch's type for elements of a file. ValueError naming the dtype where torch has none (F6, F4).
at::ScalarType scalar_type(SafetensorsDtype dtype);

/// The file's type for torch's elements. ValueError where the format has none (quantised integers).
SafetensorsDtype safetensors_dtype(at::ScalarType type);

/// A copy of the tensor, in its own dtype.
at::Tensor to_tensor(const TensorView& view);

/// The block of the view's elements, over the file's own bytes where they are aligned to their size.
at::Tensor block_tensor(const TensorView& view, const Block& block);

/// Fills `destination`, which has the block's shape, with that part of the view, converting a few megabytes
/// at a time.
void copy_block_into(const TensorView& view, const Block& block, const at::Tensor& destination);

/// The same with all of the view.
void copy_into(const TensorView& view, const at::Tensor& destination);

/// Cuts a block into bands of whole rows, of about `elements` elements each where a row is of `row_elements`;
/// at least one row. `use` gets the first row (counted from the block's own) and their number. A block
/// without dimensions is one row.
void for_each_band(const Block& block, int64_t row_elements, int64_t elements,
                   const std::function<void(Range)>& use);

/// Hands out the row-major elements of `source` (any device, layout and dtype) as `type`, in blocks of a few
/// megabytes; no whole copy is made of a contiguous CPU tensor.
void for_each_block(const at::Tensor& source, at::ScalarType type,
                    const std::function<void(std::span<const std::byte>)>& consume);

}  // namespace titan
