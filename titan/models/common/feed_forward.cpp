#include "titan/models/common/feed_forward.h"

#include "titan/ops/swiglu.h"

namespace titan {

FeedForward::FeedForward(const FeedForwardConfig& config)
    : w1_(add_child<Linear>("w1", config.w1)),
      w2_(add_child<Linear>("w2", config.w2)),
      w3_(add_child<Linear>("w3", config.w3)) {}

at::Tensor FeedForward::hidden(const at::Tensor& x) const { return swiglu(w1_->forward(x), w3_->forward(x)); }

at::Tensor FeedForward::output(const at::Tensor& hidden) const { return w2_->forward(hidden); }

template <>
ModulePtr build(const FeedForwardConfig& config) {
  return std::make_shared<FeedForward>(config);
}

}  // namespace titan
