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

/// A tensor over the file's bytes, or over a copy where they are not aligned to their elements.
at::Tensor block_of(const TensorView& view, at::ScalarType type, int64_t begin, int64_t count) {
  const auto width = static_cast<int64_t>(c10::elementSize(type));
  const std::byte* data = view.bytes.data() + begin * width;
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(width) == 0) {
    return at::from_blob(const_cast<std::byte*>(data), {count}, at::TensorOptions().dtype(type));
  }
  at::Tensor aligned = at::empty({count}, at::TensorOptions().dtype(type));
  std::memcpy(aligned.mutable_data_ptr(), data, static_cast<size_t>(count * width));
  return aligned;
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

void copy_into(const TensorView& view, const at::Tensor& destination) {
  check(std::ranges::equal(destination.sizes(), view.shape), "the destination has the tensor's shape");
  const at::ScalarType type = scalar_type(view.dtype);
  // Writing through an alias without autograd is no in-place change of a leaf.
  const at::Tensor target = destination.detach();
  if (!target.is_contiguous()) {
    target.copy_(to_tensor(view));
    return;
  }
  const at::Tensor flat = target.view({-1});
  for (int64_t begin = 0; begin < flat.numel(); begin += kBlockElements) {
    const int64_t count = std::min(kBlockElements, flat.numel() - begin);
    flat.narrow(0, begin, count).copy_(block_of(view, type, begin, count));
  }
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
