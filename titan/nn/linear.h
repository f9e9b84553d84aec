#pragma once

#include "titan/nn/linear_config.h"
#include "titan/nn/module.h"

namespace titan {

/// y = x Wᵀ (+ b).
class Linear : public Module {
 public:
  explicit Linear(const LinearConfig& config);

  /// x [..., in_features] -> [..., out_features], in x's dtype. Where the weight is cut over ranks: by rows,
  /// this rank's columns of y; by columns (as x is), this rank's summand of y, and the first rank adds the
  /// bias.
  virtual at::Tensor forward(const at::Tensor& x) const;

  Parameter weight;  ///< [out_features, in_features]
  Parameter bias;    ///< [out_features]; no shape where the config has none
};

}  // namespace titan
