#include "titan/neuron/torch/copy.h"

#include <torch/library.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "titan/base/error.h"
#include "titan/neuron/torch/core.h"
#include "titan/neuron/torch/dtype.h"
#include "titan/neuron/torch/signature.h"
#include "titan/neuron/torch/views.h"

namespace titan::neuron {
namespace {

using at::Tensor;

[[noreturn]] void refuse_value(const Tensor& to, const std::string& value) {
  throw ValueError(
      "a tensor {} {} cannot go to the neuron device: it keeps {} as {}, and the value {} does not fit",
      dtype_name(to.scalar_type()), c10::str(to.sizes()), dtype_name(to.scalar_type()),
      to.scalar_type() == at::kDouble ? "float32" : "int32", value);
}

/// torch keeps 64-bit elements; the device would have 32 bits for them.
void require_fitting_values(const Tensor& host, const Tensor& to) {
  const Tensor values = host.to(to.scalar_type()).contiguous();
  if (to.scalar_type() == at::kLong) {
    const int64_t* data = values.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < values.numel(); ++i) {
      if (data[i] != static_cast<int32_t>(data[i])) refuse_value(to, std::to_string(data[i]));
    }
  } else if (to.scalar_type() == at::kDouble) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    const double* data = values.const_data_ptr<double>();
    for (int64_t i = 0; i < values.numel(); ++i) {
      if (std::isfinite(data[i]) && std::abs(data[i]) > kLargest) refuse_value(to, shortest(data[i]));
    }
  }
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
