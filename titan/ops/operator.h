#pragma once

// For the .cpp files that define operators: a heavy header.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace titan {

/// The dispatcher's entry of an operator of ours, for a function-local static: `find_operator<Tensor(const
/// Tensor&)>( "titan::swiglu")`.
template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// Calls an operator below autograd: its kernel for the tensors' device.
template <class Signature, class... Args>
decltype(auto) call_kernel(const c10::TypedOperatorHandle<Signature>& op, Args&&... args) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(std::forward<Args>(args)...);
}

}  // namespace titan
