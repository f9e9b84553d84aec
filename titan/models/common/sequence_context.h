#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "titan/models/common/attention_config.h"

// B batch, T tokens.
namespace titan {

class RoPE;

/// What all layers of one forward share: where each token stands, whom it may see, and the RoPE caches. Made
/// once a forward, before the layers run, and only read by them.
class SequenceContext {
 public:
  /// `query_start` is the key index of the first query: 0, or the tokens already in a KV cache.
  explicit SequenceContext(at::Tensor positions_BT, int64_t query_start = 0);

  /// First visible key of each query, int32 [B, T].
  const at::Tensor& first_key(AttnMask mask);
  /// The cache of this RoPE for the positions.
  const at::Tensor& rope_cache(const RoPE& rope);

 private:
  struct RopeCache {
    std::string form;
    int64_t dim;
    double theta;
    at::Tensor cache;
  };

  at::Tensor positions_BT_;
  int64_t query_start_;
  at::Tensor document_first_key_BT_;
  at::Tensor causal_first_key_BT_;
  std::vector<RopeCache> rope_caches_;
};

}  // namespace titan
