#include "titan/distributed/tensor_streams.h"

#include <algorithm>

#include "titan/nn/placement.h"

namespace titan {
namespace {

int64_t row_bytes(const at::Tensor& like) {
  int64_t bytes = like.element_size();
  for (const int64_t size : like.sizes().slice(1)) bytes *= size;
  return bytes;
}

void add_chunks(std::vector<ByteStream>& streams, std::byte* whole, int64_t rows, int64_t bytes_a_row) {
  const auto size = static_cast<int64_t>(streams.size());
  for (int64_t r = 0; r < size; ++r) {
    const Range range = chunk_of(rows, size, r);
    streams[static_cast<size_t>(r)].add(whole ? whole + range.begin * bytes_a_row : nullptr,
                                        range.count * bytes_a_row);
  }
}

}  // namespace

ByteStream stream_of(const std::vector<at::Tensor>& tensors) {
  ByteStream stream;
  for (const at::Tensor& tensor : tensors)
    stream.add(tensor.data_ptr(), static_cast<int64_t>(tensor.nbytes()));
  return stream;
}

std::vector<ByteStream> chunk_streams(const std::vector<at::Tensor>& wholes, int64_t size) {
  std::vector<ByteStream> streams(static_cast<size_t>(size));
  for (const at::Tensor& whole : wholes) {
    add_chunks(streams, static_cast<std::byte*>(whole.data_ptr()), whole.size(0), row_bytes(whole));
  }
  return streams;
}

std::vector<ByteStream> gather_chunk_streams(const at::Tensor& out, const at::Tensor& in, int64_t rows,
                                             int64_t size) {
  std::vector<ByteStream> streams(static_cast<size_t>(size));
  add_chunks(streams, out.defined() ? static_cast<std::byte*>(out.data_ptr()) : nullptr, rows, row_bytes(in));
  return streams;
}

int64_t longest(const std::vector<ByteStream>& streams) {
  int64_t length = 0;
  for (const ByteStream& stream : streams) length = std::max(length, stream.length());
  return length;
}

std::vector<Reduction> reductions_of(const std::vector<at::Tensor>& outs, const std::vector<at::Tensor>& ins,
                                     bool accumulate) {
  std::vector<Reduction> reductions;
  for (size_t i = 0; i < ins.size(); ++i) {
    reductions.push_back(
        {.from = ins[i].scalar_type(), .to = outs[i].scalar_type(), .accumulate = accumulate});
    check_reduction(reductions.back());
  }
  return reductions;
}

}  // namespace titan
