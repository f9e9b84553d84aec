#include "titan/checkpoint/tensor_bytes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "titan/base/error.h"

namespace titan {
namespace {

// Elements converted at a time: the converted block stays in the cache.
constexpr int64_t kBlockElements = int64_t{1} << 20;

std::span<const std::pair<SafetensorsDtype, at::ScalarType>> torch_types() {
  using enum SafetensorsDtype;
  static constexpr std::pair<SafetensorsDtype, at::ScalarType> kRows[] = {{f64, at::kDouble},
                                                                          {f32, at::kFloat},
                                                                          {f16, at::kHalf},
                                                                          {bf16, at::kBFloat16},
                                                                          {f8_e4m3, at::kFloat8_e4m3fn},
                                                                          {f8_e5m2, at::kFloat8_e5m2},
                                                                          {f8_e8m0, at::kFloat8_e8m0fnu},
                                                                          {f8_e4m3fnuz, at::kFloat8_e4m3fnuz},
                                                                          {f8_e5m2fnuz, at::kFloat8_e5m2fnuz},
                                                                          {c64, at::kComplexFloat},
                                                                          {i64, at::kLong},
                                                                          {i32, at::kInt},
                                                                          {i16, at::kShort},
                                                                          {i8, at::kChar},
                                                                          {u64, at::kUInt64},
                                                                          {u32, at::kUInt32},
                                                                          {u16, at::kUInt16},
                                                                          {u8, at::kByte},
                                                                          {boolean, at::kBool}};
  return kRows;
}

at::Tensor narrowed(at::Tensor tensor, const Block& block) {
  for (size_t dim = 0; dim < block.shape.size(); ++dim) {
    tensor = tensor.narrow(static_cast<int64_t>(dim), block.offset[dim], block.shape[dim]);
  }
  return tensor;
}

/// Rows of a block, in the coordinates of the whole.
Block rows_of_block(Block block, Range rows) {
  if (block.shape.empty()) return block;
  block.offset[0] += rows.begin;
  block.shape[0] = rows.count;
  return block;
}

at::Tensor rows_of_tensor(const at::Tensor& tensor, Range rows) {
  return tensor.dim() == 0 ? tensor : tensor.narrow(0, rows.begin, rows.count);
}

}  // namespace

at::ScalarType scalar_type(SafetensorsDtype dtype) {
  const auto rows = torch_types();
  const auto found = std::ranges::find(rows, dtype, &std::pair<SafetensorsDtype, at::ScalarType>::first);
  if (found == rows.end()) throw ValueError("torch has no dtype for {}", dtype_name(dtype));
  return found->second;
}

SafetensorsDtype safetensors_dtype(at::ScalarType type) {
  const auto rows = torch_types();
  const auto found = std::ranges::find(rows, type, &std::pair<SafetensorsDtype, at::ScalarType>::second);
  if (found == rows.end()) throw ValueError("safetensors has no dtype for {}", c10::toString(type));
  return found->first;
}

at::Tensor to_tensor(const TensorView& view) {
  at::Tensor tensor = at::empty(view.shape, at::TensorOptions().dtype(scalar_type(view.dtype)));
  // A null pointer, which an empty tensor may have, is no argument for memcpy.
  if (!view.bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

at::Tensor block_tensor(const TensorView& view, const Block& block) {
  check(block.shape.size() == view.shape.size(), "a block has its tensor's dimensions");
  const at::ScalarType type = scalar_type(view.dtype);
  const auto width = static_cast<int64_t>(c10::elementSize(type));
  auto* data = const_cast<std::byte*>(view.bytes.data());
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(width) == 0) {
    return narrowed(at::from_blob(data, view.shape, at::TensorOptions().dtype(type)), block);
  }
  // Elements that straddle their alignment are moved as bytes, one dimension more.
  Block bytes = block;
  bytes.offset.push_back(0);
  bytes.shape.push_back(width);
  std::vector<int64_t> shape = view.shape;
  shape.push_back(width);
  const at::Tensor moved = narrowed(at::from_blob(data, shape, at::TensorOptions().dtype(at::kByte)), bytes);
  return moved.contiguous().view(type).squeeze(-1);
}

void copy_block_into(const TensorView& view, const Block& block, const at::Tensor& destination) {
  check(std::ranges::equal(destination.sizes(), block.shape), "the destination has the block's shape");
  // Writing through an alias without autograd is no in-place change of a leaf.
  const at::Tensor target = destination.detach();
  const int64_t row_elements = block.numel() / std::max<int64_t>(target.dim() == 0 ? 1 : target.size(0), 1);
  for_each_band(block, row_elements, kBlockElements, [&](Range rows) {
    rows_of_tensor(target, rows).copy_(block_tensor(view, rows_of_block(block, rows)));
  });
}

void copy_into(const TensorView& view, const at::Tensor& destination) {
  copy_block_into(view, Block::whole(view.shape), destination);
}

void for_each_band(const Block& block, int64_t row_elements, int64_t elements,
                   const std::function<void(Range)>& use) {
  const int64_t rows = block.shape.empty() ? 1 : block.shape[0];
  const int64_t step = std::max<int64_t>(elements / std::max<int64_t>(row_elements, 1), 1);
  for (int64_t begin = 0; begin < rows; begin += step) use({begin, std::min(step, rows - begin)});
}

void for_each_block(const at::Tensor& source, at::ScalarType type,
                    const std::function<void(std::span<const std::byte>)>& consume) {
  const at::Tensor flat = source.detach().contiguous().view({-1});
  for (int64_t begin = 0; begin < flat.numel(); begin += kBlockElements) {
    const int64_t count = std::min(kBlockElements, flat.numel() - begin);
    const at::Tensor block =
        flat.narrow(0, begin, count).to(at::TensorOptions().dtype(type).device(at::kCPU)).contiguous();
    consume({static_cast<const std::byte*>(block.const_data_ptr()), block.nbytes()});
  }
}

}  // namespace titan
