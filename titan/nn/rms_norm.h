#pragma once

#include <utility>

#include "titan/nn/module.h"
#include "titan/nn/rms_norm_config.h"

namespace titan {

/// x / sqrt(mean(x²) + eps) · weight over the last dimension (Zhang & Sennrich 2019).
class RMSNorm : public Module {
 public:
  explicit RMSNorm(const RMSNormConfig& config);

  /// x [..., normalized_shape] -> the same shape and dtype.
  virtual at::Tensor forward(const at::Tensor& x) const;

  /// (x + residual, forward(x + residual)): one operator, with the same bits, unless a derived class has its
  /// own forward.
  std::pair<at::Tensor, at::Tensor> add_and_norm(const at::Tensor& x, const at::Tensor& residual) const;

  Parameter weight;  ///< [normalized_shape]

 private:
  double eps_;
};

}  // namespace titan
