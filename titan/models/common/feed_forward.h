#pragma once

#include "titan/models/common/feed_forward_config.h"
#include "titan/nn/linear.h"

namespace titan {

/// SwiGLU feed-forward (Shazeer 2020): w2(silu(w1 x) · w3 x), in two stages.
class FeedForward : public Module {
 public:
  explicit FeedForward(const FeedForwardConfig& config);

  /// silu(w1 x) · w3 x: [..., dim] -> [..., hidden_dim].
  virtual at::Tensor hidden(const at::Tensor& x) const;
  /// w2: [..., hidden_dim] -> [..., dim].
  virtual at::Tensor output(const at::Tensor& hidden) const;

 protected:
  std::shared_ptr<Linear> w1_, w2_, w3_;
};

}  // namespace titan
