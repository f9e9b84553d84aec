#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "titan/distributed/byte_stream.h"
#include "titan/distributed/ordered_sum.h"

namespace titan {

/// The tensors one after the other.
ByteStream stream_of(const std::vector<at::Tensor>& tensors);

/// For each of `size` members the chunks (dim 0, as chunk_of() says) of whole tensors.
std::vector<ByteStream> chunk_streams(const std::vector<at::Tensor>& wholes, int64_t size);

/// The same for one whole of `rows` rows like those of `in`; without memory behind it if `out` is undefined.
std::vector<ByteStream> gather_chunk_streams(const at::Tensor& out, const at::Tensor& in, int64_t rows,
                                             int64_t size);

int64_t longest(const std::vector<ByteStream>& streams);

/// From the dtypes of ins to those of outs. Throws ValueError as check_reduction().
std::vector<Reduction> reductions_of(const std::vector<at::Tensor>& outs, const std::vector<at::Tensor>& ins,
                                     bool accumulate);

}  // namespace titan
