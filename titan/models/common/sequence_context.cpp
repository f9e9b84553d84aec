#include "titan/models/common/sequence_context.h"

#include <ATen/ops/zeros_like.h>

#include "titan/models/common/rope.h"
#include "titan/ops/attention.h"
#include "titan/ops/autograd.h"

namespace titan {

LayerContext SequenceContext::layer(const RoPE& rope, AttnMask mask) {
  return {rope_cache(rope), first_key(mask)};
}

at::Tensor SequenceContext::rope_cache(const RoPE& rope) {
  const RoPEConfig& config = rope.config();
  for (const RopeCache& held : rope_caches_) {
    if (held.form == rope.cache_form() && held.dim == config.dim && held.theta == config.theta)
      return held.cache;
  }
  const NoGrad no_grad;
  return rope_caches_
      .emplace_back(
          RopeCache{std::string(rope.cache_form()), config.dim, config.theta, rope.rope_cache(positions_BT_)})
      .cache;
}

at::Tensor SequenceContext::first_key(AttnMask mask) {
  const NoGrad no_grad;
  if (mask == AttnMask::document) {
    if (!document_first_key_BT_.defined()) document_first_key_BT_ = first_keys(positions_BT_);
    return document_first_key_BT_;
  }
  if (!causal_first_key_BT_.defined()) {
    causal_first_key_BT_ = at::zeros_like(positions_BT_, positions_BT_.options().dtype(at::kInt));
  }
  return causal_first_key_BT_;
}

}  // namespace titan
