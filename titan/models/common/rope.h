#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "titan/models/common/rope_config.h"
#include "titan/nn/module.h"

// B batch, T tokens, N query heads, K key heads, H head_dim.
namespace titan {

/// Rotary position embedding (Su et al. 2021). A derived class rotates queries and keys by a cache of its own
/// form.
class RoPE : public Module {
 public:
  explicit RoPE(const RoPEConfig& config) : config_(config) {}

  /// The angles of positions [B, T] in the form that apply_rotary_emb takes. Layers that agree in cache_form,
  /// dim and theta share one.
  virtual at::Tensor rope_cache(const at::Tensor& positions_BT) const = 0;

  /// Which form of cache this is: "cos_sin" or "complex".
  virtual std::string_view cache_form() const = 0;

  /// (query, key) rotated, in their dtypes.
  virtual std::pair<at::Tensor, at::Tensor> apply_rotary_emb(const at::Tensor& query_BTNH,
                                                             const at::Tensor& key_BTKH,
                                                             const at::Tensor& cache) const = 0;

  const RoPEConfig& config() const { return config_; }

 private:
  RoPEConfig config_;
};

/// Cache float32 [B, T, 2H]: cosines, then sines.
class CosSinRoPE : public RoPE {
 public:
  explicit CosSinRoPE(const CosSinRoPEConfig& config) : RoPE(config) {}
  at::Tensor rope_cache(const at::Tensor& positions_BT) const override;
  std::string_view cache_form() const override { return "cos_sin"; }
  std::pair<at::Tensor, at::Tensor> apply_rotary_emb(const at::Tensor& query_BTNH, const at::Tensor& key_BTKH,
                                                     const at::Tensor& cache_BT2H) const override;
};

/// Cache float32 [B, T, H/2, 2]: (cosine, sine) as the real view of complex numbers. The same rotation, bit
/// for bit.
class ComplexRoPE : public RoPE {
 public:
  explicit ComplexRoPE(const ComplexRoPEConfig& config) : RoPE(config) {}
  at::Tensor rope_cache(const at::Tensor& positions_BT) const override;
  std::string_view cache_form() const override { return "complex"; }
  std::pair<at::Tensor, at::Tensor> apply_rotary_emb(const at::Tensor& query_BTNH, const at::Tensor& key_BTKH,
                                                     const at::Tensor& cache_BTP2) const override;
};

}  // namespace titan
