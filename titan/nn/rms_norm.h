#pragma once

#include "titan/nn/module.h"
#include "titan/nn/rms_norm_config.h"

namespace titan {

/// x / sqrt(mean(x²) + eps) · weight over the last dimension (Zhang & Sennrich 2019).
class RMSNorm : public Module {
 public:
  explicit RMSNorm(const RMSNormConfig& config);

  /// x [..., normalized_shape] -> the same shape and dtype.
  virtual at::Tensor forward(const at::Tensor& x) const;

  Parameter weight;  ///< [normalized_shape]

 private:
  double eps_;
};

}  // namespace titan
