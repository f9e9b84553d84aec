#pragma once

// What the mutants share: a rotation as an operator, right but for what each of them changes.
#include <titan/kernels.h>

#include <functional>

namespace mutants {

using at::Tensor;
using titan::nki::all;
using titan::nki::ds;
using titan::nkilib::RopeHfOptions;

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;

using Pair = std::tuple<Tensor, Tensor>;

/// Runs `kernel` with the heads in front of the tokens, as rope_hf wants them.
template <class Kernel>
Pair rotated(const Kernel& kernel, const Tensor& query, const Tensor& key, const Tensor& rope_cache,
             bool backward) {
  const Tensor q = query.permute({0, 2, 1, 3}).contiguous(), k = key.permute({0, 2, 1, 3}).contiguous();
  const Tensor cache = rope_cache.contiguous();
  const auto [q_out, k_out] = kernel[2](q, k, at::empty_like(q), at::empty_like(k),
                                        RopeHfOptions{.rope_cache = cache, .backward = backward});
  return {q_out.permute({0, 2, 1, 3}).contiguous(), k_out.permute({0, 2, 1, 3}).contiguous()};
}

inline void keep_cache(titan::OpContext& ctx, titan::OpValues inputs, titan::OpValues) {
  ctx.save_for_backward(inputs[2]);
}

/// `forward` with the gradients of query and key that `backward` gives, in its order.
template <class Forward, class Backward>
auto with_backward(const Forward& forward, const Backward& backward) {
  return forward.register_autograd(
      [backward](titan::OpContext& ctx, const Tensor& q, const Tensor& k) {
        const auto [dq, dk] = backward(q, k, ctx.saved_tensors()[0]);
        return std::tuple(dq, dk, Tensor());
      },
      {.setup_context = keep_cache});
}

}  // namespace mutants

/// A rotation by what `rotate` says.
class MutantRoPE : public titan::CosSinRoPE {
 public:
  struct Config : titan::CosSinRoPEConfig {
    void describe(titan::Fields& f) { f.base<titan::CosSinRoPEConfig>(*this); }
  };
  explicit MutantRoPE(const Config& config) : CosSinRoPE(config) {}
  std::pair<at::Tensor, at::Tensor> apply_rotary_emb(const at::Tensor& query, const at::Tensor& key,
                                                     const at::Tensor& rope_cache) const override {
    const auto [q, k] = rotate(query, key, rope_cache);
    return {q, k};
  }

 private:
  /// Each mutant defines it.
  static mutants::Pair rotate(const at::Tensor& query, const at::Tensor& key, const at::Tensor& rope_cache);
};

template <>
inline titan::ModulePtr titan::build(const MutantRoPE::Config& config) {
  return std::make_shared<MutantRoPE>(config);
}

inline titan::Override mutant() {
  return titan::override<titan::CosSinRoPEConfig>({.exact = true}, [](const titan::CosSinRoPEConfig& config) {
    return titan::derive<MutantRoPE::Config>(config);
  });
}
