#include "titan/ops/linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <array>
#include <tuple>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/matmul_operand.h"
#include "titan/ops/operator.h"
#include "titan/ops/tensor_array.h"

namespace titan {

namespace {

using at::Tensor;

void linear_check(const Tensor& x, const Tensor& weight_OI) {
  check_weight_dtype("linear", x, weight_OI);
  if (x.dim() < 1 || weight_OI.dim() != 2 || x.size(-1) != weight_OI.size(1)) {
    throw ValueError("linear: x is {} and the weight {}; x's last size must be the weight's second",
                     x.sizes(), weight_OI.sizes());
  }
}

Tensor linear_shape(const Tensor& x, const Tensor& weight_OI) {
  linear_check(x, weight_OI);
  auto sizes = x.sizes().vec();
  sizes.back() = weight_OI.size(0);
  return at::empty(sizes, x.options());
}

Tensor linear_cpu(const Tensor& x, const Tensor& weight_OI) {
  linear_check(x, weight_OI);
  auto sizes = x.sizes().vec();
  sizes.back() = weight_OI.size(0);
  const auto compute = matmul_dtype(x.scalar_type());
  const auto x_MI = matmul_operand(x.reshape({-1, x.size(-1)}), x.scalar_type(), compute);
  const auto w_OI = matmul_operand(weight_OI, x.scalar_type(), compute);
  return at::mm(x_MI, w_OI.t()).to(x.scalar_type()).view(sizes);
}

using LinearGrads = std::tuple<Tensor, Tensor>;

LinearGrads linear_backward_shape(const Tensor&, const Tensor& x, const Tensor& weight_OI,
                                  std::array<bool, 2> needs) {
  return {needs[0] ? at::empty(x.sizes(), x.options()) : Tensor(),
          needs[1] ? at::empty(weight_OI.sizes(), weight_OI.options()) : Tensor()};
}

LinearGrads linear_backward_cpu(const Tensor& grad, const Tensor& x, const Tensor& weight_OI,
                                std::array<bool, 2> needs) {
  const auto compute = matmul_dtype(x.scalar_type());
  const auto grad_MO = matmul_operand(grad.reshape({-1, grad.size(-1)}), x.scalar_type(), compute);
  Tensor dx, dweight;
  if (needs[0]) {
    dx = at::mm(grad_MO, matmul_operand(weight_OI, x.scalar_type(), compute))
             .to(x.scalar_type())
             .view(x.sizes());
  }
  if (needs[1]) {
    const auto x_MI = matmul_operand(x.reshape({-1, x.size(-1)}), x.scalar_type(), compute);
    dweight = at::mm(grad_MO.t(), x_MI).to(weight_OI.scalar_type());
  }
  return {dx, dweight};
}

Tensor linear_autograd(const Tensor& x, const Tensor& weight_OI) {
  static const auto forward = find_operator<Tensor(const Tensor&, const Tensor&)>("titan::linear");
  static const auto gradient =
      find_operator<LinearGrads(const Tensor&, const Tensor&, const Tensor&, std::array<bool, 2>)>(
          "titan::linear_backward");
  Backward backward{.name = "titan::linear", .inputs = {x, weight_OI}, .saved = {x, weight_OI}};
  backward.fn = [](const GradientCall& call) -> std::vector<Tensor> {
    auto [dx, dweight] = call_kernel(gradient, call.grad_outputs[0], call.saved[0], call.saved[1],
                                     std::array{call.needs_grad[0] != 0, call.needs_grad[1] != 0});
    return {dx, dweight};
  };
  return differentiable(std::move(backward), [&] { return call_kernel(forward, x, weight_OI); });
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight_OI) {
  static const auto op = find_operator<Tensor(const Tensor&, const Tensor&)>("titan::linear");
  return op.call(x, weight_OI);
}

}  // namespace titan

TORCH_LIBRARY_FRAGMENT(titan, m) {
  m.def("linear(Tensor x, Tensor weight) -> Tensor");
  m.def("linear_backward(Tensor grad, Tensor x, Tensor weight, bool[2] needs) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(titan, CPU, m) {
  m.impl("linear", titan::linear_cpu);
  m.impl("linear_backward", titan::linear_backward_cpu);
}
TORCH_LIBRARY_IMPL(titan, Meta, m) {
  m.impl("linear", titan::linear_shape);
  m.impl("linear_backward", titan::linear_backward_shape);
}
TORCH_LIBRARY_IMPL(titan, Autograd, m) { m.impl("linear", titan::linear_autograd); }
