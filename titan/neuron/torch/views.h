#pragma once

#include <ATen/core/Tensor.h>

namespace titan::neuron {

/// A CPU tensor of the same bytes, sizes, strides and dtype, for a CPU kernel to work on. It keeps the
/// storage alive, and is not to be held longer than the call.
at::Tensor cpu_view(const at::Tensor& tensor);

/// Lets go of a storage that unsafeReleaseStorageImpl() has handed out: the deleter of a DataPtr that shares
/// it.
void release_storage(void* storage);

/// A device tensor over `storage` that lies in it as `like` lies in its own.
at::Tensor device_tensor(c10::Storage storage, const at::Tensor& like);

}  // namespace titan::neuron
