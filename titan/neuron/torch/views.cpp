#include "titan/neuron/torch/views.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <utility>

namespace titan::neuron {
namespace {

constexpr c10::DispatchKeySet kLazyBits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

void lay_out_like(const at::Tensor& tensor, const at::Tensor& like) {
  at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl.set_wrapped_number(true);
}

}  // namespace

void release_storage(void* storage) {
  c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(storage));
}

at::Tensor cpu_view(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  void* data = storage.mutable_data();  // an error where the storage has none, a sharded weight's
  c10::DataPtr shared(data, c10::Storage(storage).unsafeReleaseStorageImpl(), &release_storage,
                      c10::Device(c10::kCPU));
  c10::Storage bytes(c10::Storage::use_byte_size_t(), storage.sym_nbytes(), std::move(shared),
                     c10::GetCPUAllocator(), storage.resizable());
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      std::move(bytes), c10::DispatchKeySet(c10::DispatchKey::CPU) | (tensor.key_set() & kLazyBits),
      tensor.dtype());
  lay_out_like(view, tensor);
  return view;
}

at::Tensor device_tensor(c10::Storage storage, const at::Tensor& like) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | (like.key_set() & kLazyBits),
      like.dtype());
  lay_out_like(tensor, like);
  return tensor;
}

}  // namespace titan::neuron
