#include "titan/ops/swiglu.h"

#include <ATen/ops/empty.h>

#include <array>
#include <tuple>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/operator.h"
#include "titan/ops/tensor_array.h"

namespace titan {

namespace {

using at::Tensor;
using SwigluGrads = std::tuple<Tensor, Tensor>;

Tensor swiglu_shape(const Tensor& gate, const Tensor& up) {
  element_of(gate, "swiglu: gate");
  if (gate.sizes() != up.sizes() || gate.scalar_type() != up.scalar_type()) {
    throw ValueError("swiglu: gate is {} {} and up {} {}; they must be alike",
                     c10::toString(gate.scalar_type()), gate.sizes(), c10::toString(up.scalar_type()),
                     up.sizes());
  }
  return at::empty(gate.sizes(), gate.options());
}

Tensor swiglu_cpu(const Tensor& gate, const Tensor& up) {
  auto out = swiglu_shape(gate, up);
  const auto g = gate.contiguous(), u = up.contiguous();
  const SwigluArgs args{.gate = const_array(g), .up = const_array(u), .out = array(out)};
  parallel_rows(g.numel(), 1, [&](int64_t begin, int64_t end) { kernels().swiglu(args, begin, end); });
  return out;
}

SwigluGrads swiglu_backward_shape(const Tensor&, const Tensor& gate, const Tensor& up,
                                  std::array<bool, 2> needs) {
  return {needs[0] ? at::empty(gate.sizes(), gate.options()) : Tensor(),
          needs[1] ? at::empty(up.sizes(), up.options()) : Tensor()};
}

SwigluGrads swiglu_backward_cpu(const Tensor& grad, const Tensor& gate, const Tensor& up,
                                std::array<bool, 2> needs) {
  auto grads = swiglu_backward_shape(grad, gate, up, needs);
  const auto dy = grad.contiguous(), g = gate.contiguous(), u = up.contiguous();
  const SwigluArgs args{.gate = const_array(g),
                        .up = const_array(u),
                        .grad = const_array(dy),
                        .dgate = array(std::get<0>(grads)),
                        .dup = array(std::get<1>(grads))};
  parallel_rows(g.numel(), 1,
                [&](int64_t begin, int64_t end) { kernels().swiglu_backward(args, begin, end); });
  return grads;
}

Tensor swiglu_autograd(const Tensor& gate, const Tensor& up) {
  static const auto forward = find_operator<Tensor(const Tensor&, const Tensor&)>("titan::swiglu");
  static const auto gradient =
      find_operator<SwigluGrads(const Tensor&, const Tensor&, const Tensor&, std::array<bool, 2>)>(
          "titan::swiglu_backward");
  Backward backward{.name = "titan::swiglu", .inputs = {gate, up}, .saved = {gate, up}};
  backward.fn = [](const GradientCall& call) -> std::vector<Tensor> {
    auto [dgate, dup] = call_kernel(gradient, call.grad_outputs[0], call.saved[0], call.saved[1],
                                    std::array{call.needs_grad[0] != 0, call.needs_grad[1] != 0});
    return {dgate, dup};
  };
  return differentiable(std::move(backward), [&] { return call_kernel(forward, gate, up); });
}

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  static const auto op = find_operator<Tensor(const Tensor&, const Tensor&)>("titan::swiglu");
  return op.call(gate, up);
}

}  // namespace titan

TORCH_LIBRARY_FRAGMENT(titan, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up, bool[2] needs) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(titan, CPU, m) {
  m.impl("swiglu", titan::swiglu_cpu);
  m.impl("swiglu_backward", titan::swiglu_backward_cpu);
}
TORCH_LIBRARY_IMPL(titan, Meta, m) {
  m.impl("swiglu", titan::swiglu_shape);
  m.impl("swiglu_backward", titan::swiglu_backward_shape);
}
TORCH_LIBRARY_IMPL(titan, Autograd, m) { m.impl("swiglu", titan::swiglu_autograd); }
