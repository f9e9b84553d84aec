#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace titan {

/// Turns gradient recording off for its lifetime.
using NoGrad = at::NoGradGuard;

/// What a backward function is given when gradients arrive.
struct GradientCall {
  /// Backward::saved, followed by the outputs named in Backward::saved_outputs.
  std::span<const at::Tensor> saved;
  /// One per differentiable output of the forward; undefined where no gradient arrived.
  std::span<const at::Tensor> grad_outputs;
  /// One per Backward::inputs; where 0 the gradient is not wanted and may be left undefined.
  std::span<const uint8_t> needs_grad;
};

/// The backward of one differentiable function: which inputs get gradients, what it keeps, and how it
/// computes them.
struct Backward {
  /// Shown in profiles and error messages.
  std::string name;
  /// Tensors that may receive a gradient; an undefined one is allowed and never needs one.
  std::vector<at::Tensor> inputs;
  /// Kept by reference; an in-place change before the backward is an error that names the node.
  std::vector<at::Tensor> saved;
  /// Returns one gradient per input, undefined where there is none. Runs without recording: no second
  /// derivatives. It may throw anything: errors name the function (rethrow_from).
  std::function<std::vector<at::Tensor>(const GradientCall&)> fn;
  /// Indices of outputs that are kept too (without a reference cycle).
  std::vector<int64_t> saved_outputs = {};
  /// Outputs from this index on carry no gradient (logsumexp and the like); default: all carry one.
  int64_t num_differentiable = INT64_MAX;
};

/// Runs `forward` without recording and, if gradients are on and an input requires one, hangs `backward` on
/// its outputs. An output that is an input is returned as an alias, so identity functions are allowed.
std::vector<at::Tensor> differentiable(Backward backward,
                                       const std::function<std::vector<at::Tensor>()>& forward);

/// The same for a function of one output.
at::Tensor differentiable(Backward backward, const std::function<at::Tensor()>& forward);

/// Calls `fn(parameter)` each time a gradient has been added to `parameter.grad()`; several hooks run in
/// order. `parameter` must be a leaf that requires a gradient.
void on_grad_ready(const at::Tensor& parameter, std::function<void(const at::Tensor&)> fn);

/// Back-propagates from `output` (a scalar unless `grad_output` is given) and adds into the leaves' grad().
void backward(const at::Tensor& output, const at::Tensor& grad_output = {});

}  // namespace titan
