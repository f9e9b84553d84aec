#include "titan/models/common/rope.h"

#include "titan/ops/rope.h"

namespace titan {
namespace {

/// Made on the host and used where the positions are.
at::Tensor frequencies(const RoPEConfig& config, const at::Tensor& positions_BT) {
  return rope_inverse_frequencies(config.dim, config.theta).to(positions_BT.device());
}

}  // namespace

at::Tensor CosSinRoPE::rope_cache(const at::Tensor& positions_BT) const {
  return titan::rope_cache(positions_BT, frequencies(config(), positions_BT));
}

std::pair<at::Tensor, at::Tensor> CosSinRoPE::apply_rotary_emb(const at::Tensor& query_BTNH,
                                                               const at::Tensor& key_BTKH,
                                                               const at::Tensor& cache_BT2H) const {
  return rope_cos_sin(query_BTNH, key_BTKH, cache_BT2H);
}

at::Tensor ComplexRoPE::rope_cache(const at::Tensor& positions_BT) const {
  return rope_complex_cache(positions_BT, frequencies(config(), positions_BT));
}

std::pair<at::Tensor, at::Tensor> ComplexRoPE::apply_rotary_emb(const at::Tensor& query_BTNH,
                                                                const at::Tensor& key_BTKH,
                                                                const at::Tensor& cache_BTP2) const {
  return rope_complex(query_BTNH, key_BTKH, cache_BTP2);
}

template <>
ModulePtr build(const CosSinRoPEConfig& config) {
  return std::make_shared<CosSinRoPE>(config);
}

template <>
ModulePtr build(const ComplexRoPEConfig& config) {
  return std::make_shared<ComplexRoPE>(config);
}

}  // namespace titan
