#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace titan {

/// Settings of one AdamW step; `step` counts from 1.
struct AdamWOptions {
  double lr = 8e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  int64_t step = 1;
  /// Multiplies every gradient as it is read (the clip factor).
  double grad_scale = 1.0;
};

/// One AdamW step over lists in a single pass: p -= lr·wd·p, then the Adam update of Loshchilov & Hutter 2019
/// with torch.optim.AdamW's placement of eps. Parameters and moments are float32 or bfloat16 (float32
/// inside); a parameter whose gradient is undefined is skipped. Gradients are not changed. Throws ValueError
/// if lists or shapes do not match.
void adamw_(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
            const AdamWOptions& options);

/// Sum of squares of all elements of all defined tensors, a float64 scalar summed in a fixed order.
at::Tensor squared_norm(at::TensorList tensors);

/// sqrt(squared_norm) as a float32 scalar: the global L2 norm.
at::Tensor grad_norm(at::TensorList grads);

}  // namespace titan
