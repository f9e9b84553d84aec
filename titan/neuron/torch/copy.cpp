#include "titan/neuron/torch/copy.h"

#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>

#include "titan/base/error.h"
#include "titan/neuron/torch/core.h"
#include "titan/neuron/torch/dtype.h"
#include "titan/neuron/torch/signature.h"
#include "titan/neuron/torch/views.h"

namespace titan::neuron {
namespace {

using at::Tensor;

/// The dtype that the device keeps 64-bit elements in, which torch keeps as they are.
const char* kept_as(c10::ScalarType dtype) {
  return dtype == at::kLong     ? "int32"
         : dtype == at::kUInt64 ? "uint32"
         : dtype == at::kDouble ? "float32"
                                : "complex64";
}

bool fits(int64_t value) { return value == static_cast<int32_t>(value); }
bool fits(uint64_t value) { return value == static_cast<uint32_t>(value); }
bool fits(double value) {
  return !std::isfinite(value) || std::abs(value) <= double{std::numeric_limits<float>::max()};
}

std::string text(std::integral auto value) { return std::to_string(value); }
std::string text(double value) { return shortest(value); }

template <class Value>
void require_each_fits(const Tensor& values, const Tensor& to) {
  const Value* data = values.const_data_ptr<Value>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (fits(data[i])) continue;
    throw ValueError(
        "a tensor {} {} cannot go to the neuron device: it keeps {} as {}, and the value {} does not fit",
        dtype_name(to.scalar_type()), c10::str(to.sizes()), dtype_name(to.scalar_type()),
        kept_as(to.scalar_type()), text(data[i]));
  }
}

/// What arrives must fit into the device's 32 bits, whatever dtype it comes from.
void require_fitting_values(const Tensor& host, const Tensor& to) {
  const c10::ScalarType dtype = to.scalar_type();
  if (c10::elementSize(c10::toRealValueType(dtype)) != 8) return;
  const Tensor values = host.to(dtype).resolve_conj().resolve_neg().contiguous();
  if (dtype == at::kLong) require_each_fits<int64_t>(values, to);
  if (dtype == at::kUInt64) require_each_fits<uint64_t>(values, to);
  if (dtype == at::kDouble) require_each_fits<double>(values, to);
  if (dtype == at::kComplexDouble) require_each_fits<double>(at::view_as_real(values), to);
}

/// Copies across the link are transfers and compile nothing; on the device a copy is an operator.
Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  const bool inside = from.is_privateuseone() && to.is_privateuseone();
  if (!from.is_privateuseone()) require_fitting_values(from, to);
  const Tensor source = from.is_privateuseone() ? cpu_view(from) : from;
  const Tensor target = to.is_privateuseone() ? cpu_view(to) : to;
  target.copy_(source, non_blocking);
  if (inside) {
    static const OperationName name("aten::copy_");
    note_call(name, std::array{from}, std::array{to});
  }
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

}  // namespace

void register_copies() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                                __LINE__);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  // Conjugated and negated tensors are resolved by copying: the copy itself must take them as they are.
  static torch::Library conjugate(torch::Library::IMPL, "aten", c10::DispatchKey::Conjugate, __FILE__,
                                  __LINE__);
  static torch::Library negative(torch::Library::IMPL, "aten", c10::DispatchKey::Negative, __FILE__,
                                 __LINE__);
  for (torch::Library* lazy : {&conjugate, &negative}) {
    lazy->impl("_copy_from", torch::CppFunction::makeFallthrough());
    lazy->impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
  }
}

}  // namespace titan::neuron
