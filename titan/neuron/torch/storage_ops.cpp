#include "titan/neuron/torch/storage_ops.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/fill_ops.h>
#include <torch/library.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "titan/base/error.h"
#include "titan/neuron/torch/dtype.h"
#include "titan/neuron/torch/memory.h"
#include "titan/neuron/torch/signature.h"
#include "titan/neuron/torch/views.h"

namespace at::native {
Tensor view(const Tensor& self, IntArrayRef size);
}

namespace titan::neuron {
namespace {

using at::Tensor;
using c10::SymInt;
using c10::SymIntArrayRef;

c10::IntArrayRef numbers(SymIntArrayRef sizes) { return C10_AS_INTARRAYREF_SLOW(sizes); }

void require_strided(std::optional<c10::Layout> layout) {
  TORCH_CHECK(layout.value_or(c10::kStrided) == c10::kStrided,
              "the neuron device has strided tensors only, not ", layout.value_or(c10::kStrided));
}

/// A storage for `bytes` bytes of elements of `dtype`, and a flat tensor over it without a size yet.
Tensor over_storage(int64_t bytes, c10::ScalarType dtype, const char* operation) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, allocate_hbm(bytes, dtype, operation),
                       &hbm_allocator(), /*resizable=*/true);
  const auto& torch = at::globalContext();
  // As torch does on its own devices; all ones are a NaN of every float.
  if (bytes > 0 && torch.deterministicAlgorithms() && torch.deterministicFillUninitializedMemory())
    std::memset(storage.mutable_data(), 0xff, static_cast<size_t>(bytes));
  return at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                  c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                  c10::scalarTypeToTypeMeta(dtype));
}

Tensor empty(SymIntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
             std::optional<c10::Device>, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  require_strided(layout);
  const c10::IntArrayRef sizes = numbers(size);
  at::detail::check_size_nonnegative(sizes);
  const c10::ScalarType type = c10::dtype_or_default(dtype);
  const auto bytes =
      static_cast<int64_t>(at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(type)));
  Tensor tensor = over_storage(bytes, type, "aten::empty");
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  if (format && *format != c10::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return tensor;
}

Tensor empty_strided(SymIntArrayRef size, SymIntArrayRef stride, std::optional<c10::ScalarType> dtype,
                     std::optional<c10::Layout> layout, std::optional<c10::Device>, std::optional<bool>) {
  require_strided(layout);
  const c10::IntArrayRef sizes = numbers(size), strides = numbers(stride);
  at::detail::check_size_nonnegative(sizes);
  const c10::ScalarType type = c10::dtype_or_default(dtype);
  const auto bytes =
      static_cast<int64_t>(at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type)));
  Tensor tensor = over_storage(bytes, type, "aten::empty_strided");
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

Tensor view_of(const Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                       self.key_set(), self.dtype());
  at::native::setStrided(view, sizes, strides, offset);
  return view;
}

Tensor as_strided(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride,
                  std::optional<SymInt> offset) {
  return view_of(self, numbers(size), numbers(stride), offset ? offset->expect_int() : self.storage_offset());
}

Tensor view(const Tensor& self, SymIntArrayRef size) { return at::native::view(self, numbers(size)); }

Tensor reshape_alias(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride) {
  return view_of(self, numbers(size), numbers(stride), self.storage_offset());
}

Tensor& set_storage(Tensor& self, c10::Storage source, SymInt offset, SymIntArrayRef size,
                    SymIntArrayRef stride) {
  TORCH_CHECK(source.device() == self.device(), "set_: the storage is on ", source.device(),
              " and the tensor on ", self.device());
  const c10::IntArrayRef sizes = numbers(size), strides = numbers(stride);
  // As on the CPU, a storage that is too small grows.
  const size_t bytes =
      at::detail::computeStorageNbytes(sizes, strides, self.dtype().itemsize(), offset.expect_int());
  if (bytes > source.nbytes()) resize_hbm(*source.unsafeGetStorageImpl(), static_cast<int64_t>(bytes));
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  at::native::setStrided(self, sizes, strides, offset.expect_int());
  return self;
}

Tensor& set_whole_storage(Tensor& self, c10::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, {SymInt(count)}, {SymInt(1)});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  return set_storage(self, source.storage(), source.sym_storage_offset(), source.sym_sizes(),
                     source.sym_strides());
}

Tensor& set_nothing(Tensor& self) {
  const int64_t none = 0;
  c10::Storage storage(c10::Storage::use_byte_size_t(), none,
                       allocate_hbm(0, self.scalar_type(), "aten::set_"), &hbm_allocator(), true);
  return set_storage(self, std::move(storage), 0, {SymInt(0)}, {SymInt(1)});
}

/// Zeros are written by DMA: nothing is compiled.
Tensor& zero(Tensor& self) {
  if (self.is_non_overlapping_and_dense()) {
    if (self.numel() > 0) std::memset(self.mutable_data_ptr(), 0, self.nbytes());
  } else {
    cpu_view(self).zero_();
  }
  note_transfer(static_cast<double>(device_bytes(self.scalar_type(), static_cast<int64_t>(self.nbytes()))));
  return self;
}

/// As the CPU's kernel through the fallback, without its way through boxes: the kernel takes next to no time.
Tensor& fill(Tensor& self, const c10::Scalar& value) {
  static const OperationName name("aten::fill_.Scalar");
  Tensor view = cpu_view(self);
  at::_ops::fill__Scalar::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), view, value);
  note_call(name, std::array{self}, std::array{self});
  return self;
}

/// item(): the bytes are the host's to read, and nothing is compiled.
c10::Scalar number(const Tensor& self) { return at::native::_local_scalar_dense_cpu(self); }

}  // namespace

void register_storage_operators() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                                __LINE__);
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &as_strided);
  library.impl("view", &view);
  library.impl("_reshape_alias", &reshape_alias);
  library.impl("set_.source_Storage", &set_whole_storage);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("set_.source_Tensor", &set_tensor);
  library.impl("set_", &set_nothing);
  library.impl("zero_", &zero);
  library.impl("fill_.Scalar", &fill);
  library.impl("_local_scalar_dense", &number);
}

}  // namespace titan::neuron
