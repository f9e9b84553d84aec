#include "titan/ops/rms_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/operator.h"
#include "titan/ops/tensor_array.h"

namespace titan {

namespace {

using at::Tensor;
/// (y, rstd), or (dx, dweight).
using RmsNormResult = std::tuple<Tensor, Tensor>;
/// (x + residual, y, rstd).
using AddRmsNormResult = std::tuple<Tensor, Tensor, Tensor>;

/// (y, rstd); rstd has x's shape without the last dimension.
RmsNormResult rms_norm_shape(const Tensor& x, const Tensor& weight_D, double) {
  check_weight_dtype("rms_norm", x, weight_D);
  if (x.dim() < 1 || weight_D.dim() != 1 || x.size(-1) != weight_D.size(0)) {
    throw ValueError("rms_norm: x is {} and the weight {}; x's last size must be the weight's", x.sizes(),
                     weight_D.sizes());
  }
  return {at::empty(x.sizes(), x.options()),
          at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(at::kFloat))};
}

/// (x + residual, y, rstd).
AddRmsNormResult add_rms_norm_shape(const Tensor& x, const Tensor& residual, const Tensor& weight_D,
                                    double eps) {
  if (x.sizes() != residual.sizes() || x.scalar_type() != residual.scalar_type()) {
    throw ValueError("add_rms_norm: x is {} {} and the residual {} {}; they must be alike",
                     c10::toString(x.scalar_type()), x.sizes(), c10::toString(residual.scalar_type()),
                     residual.sizes());
  }
  auto [y, rstd] = rms_norm_shape(x, weight_D, eps);
  return {at::empty(x.sizes(), x.options()), y, rstd};
}

RmsNormResult rms_norm_cpu(const Tensor& x, const Tensor& weight_D, double eps) {
  auto [y, rstd] = rms_norm_shape(x, weight_D, eps);
  const auto rows = x.contiguous(), weight = as_float(weight_D);
  const RmsNormArgs args{.x = const_array(rows),
                         .y = array(y),
                         .weight = weight.const_data_ptr<float>(),
                         .rstd = rstd.mutable_data_ptr<float>(),
                         .dim = x.size(-1),
                         .eps = static_cast<float>(eps)};
  parallel_rows(rstd.numel(), args.dim,
                [&](int64_t begin, int64_t end) { kernels().rms_norm(args, begin, end); });
  return {y, rstd};
}

AddRmsNormResult add_rms_norm_cpu(const Tensor& x, const Tensor& residual, const Tensor& weight_D,
                                  double eps) {
  auto [sum, y, rstd] = add_rms_norm_shape(x, residual, weight_D, eps);
  const auto rows = x.contiguous(), residual_rows = residual.contiguous(), weight = as_float(weight_D);
  const RmsNormArgs args{.x = const_array(rows),
                         .residual = const_array(residual_rows),
                         .sum = array(sum),
                         .y = array(y),
                         .weight = weight.const_data_ptr<float>(),
                         .rstd = rstd.mutable_data_ptr<float>(),
                         .dim = x.size(-1),
                         .eps = static_cast<float>(eps)};
  parallel_rows(rstd.numel(), args.dim,
                [&](int64_t begin, int64_t end) { kernels().rms_norm(args, begin, end); });
  return {sum, y, rstd};
}

RmsNormResult rms_norm_backward_shape(const Tensor&, const Tensor& x, const Tensor& weight_D, const Tensor&,
                                      const std::optional<Tensor>&, std::array<bool, 2> needs) {
  return {needs[0] ? at::empty(x.sizes(), x.options()) : Tensor(),
          needs[1] ? at::empty(weight_D.sizes(), weight_D.options()) : Tensor()};
}

RmsNormResult rms_norm_backward_cpu(const Tensor& grad, const Tensor& x, const Tensor& weight_D,
                                    const Tensor& rstd, const std::optional<Tensor>& grad_sum,
                                    std::array<bool, 2> needs) {
  auto [dx, dweight] = rms_norm_backward_shape(grad, x, weight_D, rstd, grad_sum, needs);
  const auto rows = x.contiguous(), grad_rows = grad.contiguous(), weight = as_float(weight_D);
  const auto grad_sum_rows = grad_sum.has_value() && grad_sum->defined() ? grad_sum->contiguous() : Tensor();
  // The weight's gradient is summed in parts of fixed size, so that it does not depend on the number of
  // threads.
  constexpr int64_t kParts = 64;
  const int64_t num_rows = rstd.numel(), dim = x.size(-1);
  const int64_t part_rows = std::max<int64_t>(16, (num_rows + kParts - 1) / kParts);
  const int64_t parts = (num_rows + part_rows - 1) / part_rows;
  const auto partial = at::zeros({needs[1] ? parts : 0, dim}, rstd.options());
  parallel_rows(parts, part_rows * dim, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const RmsNormBackwardArgs args{
          .x = const_array(rows),
          .grad = const_array(grad_rows),
          .grad_sum = const_array(grad_sum_rows),
          .dx = array(dx),
          .weight = weight.const_data_ptr<float>(),
          .rstd = rstd.const_data_ptr<float>(),
          .dweight = needs[1] ? partial.mutable_data_ptr<float>() + part * dim : nullptr,
          .dim = dim};
      kernels().rms_norm_backward(args, part * part_rows, std::min(num_rows, (part + 1) * part_rows));
    }
  });
  if (needs[1]) {
    const auto total = at::zeros({dim}, rstd.options());
    for (int64_t part = 0; part < parts; ++part) {
      kernels().accumulate(total.mutable_data_ptr<float>(),
                           {partial.const_data_ptr<float>() + part * dim, Element::f32}, dim);
    }
    dweight = total.to(weight_D.scalar_type());
  }
  return {dx, dweight};
}

RmsNormResult call_rms_norm_backward(const GradientCall& call, const Tensor& grad, const Tensor& x,
                                     const Tensor& rstd, const std::optional<Tensor>& grad_sum,
                                     std::array<bool, 2> needs) {
  static const auto gradient =
      find_operator<RmsNormResult(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                  const std::optional<Tensor>&, std::array<bool, 2>)>(
          "titan::rms_norm_backward");
  return call_kernel(gradient, grad, x, call.saved[0], rstd, grad_sum, needs);
}

using RmsNormForward = RmsNormResult(const Tensor&, const Tensor&, double);
using AddRmsNormForward = AddRmsNormResult(const Tensor&, const Tensor&, const Tensor&, double);

RmsNormResult rms_norm_autograd(const Tensor& x, const Tensor& weight_D, double eps) {
  static const auto forward = find_operator<RmsNormForward>("titan::rms_norm");
  Backward backward{.name = "titan::rms_norm", .inputs = {x, weight_D}, .saved = {weight_D, x}};
  backward.saved_outputs = {1};
  backward.num_differentiable = 1;
  backward.fn = [](const GradientCall& call) -> std::vector<Tensor> {
    auto [dx, dweight] =
        call_rms_norm_backward(call, call.grad_outputs[0], call.saved[1], call.saved[2], std::nullopt,
                               {call.needs_grad[0] != 0, call.needs_grad[1] != 0});
    return {dx, dweight};
  };
  const auto outputs = differentiable(std::move(backward), [&]() -> std::vector<Tensor> {
    auto [y, rstd] = call_kernel(forward, x, weight_D, eps);
    return {y, rstd};
  });
  return {outputs[0], outputs[1]};
}

std::vector<Tensor> add_rms_norm_gradients(const GradientCall& call) {
  const Tensor &dsum = call.grad_outputs[0], &dy = call.grad_outputs[1];
  if (!dy.defined()) return {dsum, dsum, Tensor()};
  const bool needs_x = call.needs_grad[0] || call.needs_grad[1];
  const auto extra = dsum.defined() ? std::optional(dsum) : std::nullopt;
  auto [dx, dweight] = call_rms_norm_backward(call, dy, call.saved[1], call.saved[2], extra,
                                              {needs_x, call.needs_grad[2] != 0});
  return {dx, dx, dweight};
}

AddRmsNormResult add_rms_norm_autograd(const Tensor& x, const Tensor& residual, const Tensor& weight_D,
                                       double eps) {
  static const auto forward = find_operator<AddRmsNormForward>("titan::add_rms_norm");
  Backward backward{.name = "titan::add_rms_norm", .inputs = {x, residual, weight_D}, .saved = {weight_D}};
  backward.saved_outputs = {0, 2};
  backward.num_differentiable = 2;
  backward.fn = add_rms_norm_gradients;
  const auto outputs = differentiable(std::move(backward), [&]() -> std::vector<Tensor> {
    auto [sum, y, rstd] = call_kernel(forward, x, residual, weight_D, eps);
    return {sum, y, rstd};
  });
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight_D, double eps) {
  static const auto op = find_operator<RmsNormForward>("titan::rms_norm");
  return std::get<0>(op.call(x, weight_D, eps));
}

std::pair<Tensor, Tensor> add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight_D,
                                       double eps) {
  static const auto op = find_operator<AddRmsNormForward>("titan::add_rms_norm");
  auto [sum, y, rstd] = op.call(x, residual, weight_D, eps);
  return {sum, y};
}

}  // namespace titan

TORCH_LIBRARY_FRAGMENT(titan, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)");
  m.def("add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor, Tensor)");
  m.def(
      "rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor rstd, Tensor? grad_sum, bool[2] needs) "
      "-> "
      "(Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(titan, CPU, m) {
  m.impl("rms_norm", titan::rms_norm_cpu);
  m.impl("add_rms_norm", titan::add_rms_norm_cpu);
  m.impl("rms_norm_backward", titan::rms_norm_backward_cpu);
}
TORCH_LIBRARY_IMPL(titan, Meta, m) {
  m.impl("rms_norm", titan::rms_norm_shape);
  m.impl("add_rms_norm", titan::add_rms_norm_shape);
  m.impl("rms_norm_backward", titan::rms_norm_backward_shape);
}
TORCH_LIBRARY_IMPL(titan, Autograd, m) {
  m.impl("rms_norm", titan::rms_norm_autograd);
  m.impl("add_rms_norm", titan::add_rms_norm_autograd);
}
