#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "titan/models/common/attention_config.h"

// B batch, T tokens.
namespace titan {

class RoPE;

/// What one layer needs to know about the rows besides their activations.
struct LayerContext {
  at::Tensor rope_cache;    ///< in the form of the layer's RoPE
  at::Tensor first_key_BT;  ///< int32, see attention()
};

/// Makes the layers' contexts of one forward: tensors that several layers need are computed once.
class SequenceContext {
 public:
  explicit SequenceContext(at::Tensor positions_BT) : positions_BT_(std::move(positions_BT)) {}

  LayerContext layer(const RoPE& rope, AttnMask mask);

 private:
  struct RopeCache {
    std::string form;
    int64_t dim;
    double theta;
    at::Tensor cache;
  };

  at::Tensor rope_cache(const RoPE& rope);
  at::Tensor first_key(AttnMask mask);

  at::Tensor positions_BT_;
  at::Tensor document_first_key_BT_;
  at::Tensor causal_first_key_BT_;
  std::vector<RopeCache> rope_caches_;
};

}  // namespace titan
