#include "titan/ops/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>

#include <tuple>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/operator.h"
#include "titan/ops/tensor_array.h"

namespace titan {

namespace {

using at::Tensor;
using QueryKey = std::tuple<Tensor, Tensor>;
using RopeOperator = QueryKey(const Tensor&, const Tensor&, const Tensor&, bool);

void rope_check(const Tensor& x_BTNH, const Tensor& cache_BT2H, std::string_view what) {
  element_of(x_BTNH, what);
  if (cache_BT2H.scalar_type() != at::kFloat) {
    throw ValueError("rope: the cache is {}; it must be float32", c10::toString(cache_BT2H.scalar_type()));
  }
  const bool fits = x_BTNH.dim() == 4 && x_BTNH.size(3) % 2 == 0 && cache_BT2H.dim() == 3 &&
                    (cache_BT2H.size(0) == 1 || cache_BT2H.size(0) == x_BTNH.size(0)) &&
                    cache_BT2H.size(1) == x_BTNH.size(1) && cache_BT2H.size(2) == 2 * x_BTNH.size(3);
  if (!fits) {
    throw ValueError(
        "{} is {} and the cache {}; they must be [B, T, heads, H] with an even H and [B or 1, T, 2H]", what,
        x_BTNH.sizes(), cache_BT2H.sizes());
  }
}

QueryKey rope_shape(const Tensor& q_BTNH, const Tensor& k_BTKH, const Tensor& cache_BT2H, bool) {
  rope_check(q_BTNH, cache_BT2H, "rope: q");
  rope_check(k_BTKH, cache_BT2H, "rope: k");
  return {at::empty(q_BTNH.sizes(), q_BTNH.options()), at::empty(k_BTKH.sizes(), k_BTKH.options())};
}

void rotate(const Tensor& x_BTNH, const Tensor& cache_BT2H, bool backward, const Tensor& out) {
  const auto x = x_BTNH.stride(3) == 1 ? x_BTNH : x_BTNH.contiguous();
  const RopeArgs args{.x = const_array(x),
                      .out = array(out),
                      .cache = cache_BT2H.const_data_ptr<float>(),
                      .cache_batch_stride = cache_BT2H.size(0) == 1 ? 0 : cache_BT2H.stride(0),
                      .tokens = x.size(1),
                      .heads = x.size(2),
                      .head_dim = x.size(3),
                      .stride_b = x.stride(0),
                      .stride_t = x.stride(1),
                      .stride_n = x.stride(2),
                      .backward = backward};
  parallel_rows(x.size(0) * x.size(1), args.heads * args.head_dim,
                [&](int64_t begin, int64_t end) { kernels().rope(args, begin, end); });
}

QueryKey rope_cpu(const Tensor& q_BTNH, const Tensor& k_BTKH, const Tensor& cache_BT2H, bool backward) {
  auto [q, k] = rope_shape(q_BTNH, k_BTKH, cache_BT2H, backward);
  const auto cache = cache_BT2H.contiguous();
  rotate(q_BTNH, cache, backward, q);
  rotate(k_BTKH, cache, backward, k);
  return {q, k};
}

QueryKey rope_autograd(const Tensor& q_BTNH, const Tensor& k_BTKH, const Tensor& cache_BT2H, bool inverse) {
  static const auto op = find_operator<RopeOperator>("titan::rope");
  Backward backward{.name = "titan::rope", .inputs = {q_BTNH, k_BTKH}, .saved = {cache_BT2H}};
  const auto options = [](const Tensor& x) { return std::pair(x.sizes().vec(), x.options()); };
  backward.fn = [inverse, q = options(q_BTNH),
                 k = options(k_BTKH)](const GradientCall& call) -> std::vector<Tensor> {
    const auto given = [&](size_t i, const auto& like) {
      const Tensor& grad = call.grad_outputs[i];
      return grad.defined() ? grad : at::empty(like.first, like.second).zero_();
    };
    auto [dq, dk] = call_kernel(op, given(0, q), given(1, k), call.saved[0], !inverse);
    return {dq, dk};
  };
  const auto outputs = differentiable(std::move(backward), [&]() -> std::vector<Tensor> {
    auto [q, k] = call_kernel(op, q_BTNH, k_BTKH, cache_BT2H, inverse);
    return {q, k};
  });
  return {outputs[0], outputs[1]};
}

/// angles [B, T, P] = position · inverse frequency, float32.
Tensor rope_angles(const Tensor& positions_BT, const Tensor& inverse_frequencies_P) {
  if (positions_BT.dim() != 2 || inverse_frequencies_P.dim() != 1) {
    throw ValueError("rope: positions are {} and inverse frequencies {}; they must be [B, T] and [P]",
                     positions_BT.sizes(), inverse_frequencies_P.sizes());
  }
  return positions_BT.to(at::kFloat).unsqueeze(-1).mul(inverse_frequencies_P);
}

Tensor rope_cache_shape(const Tensor& positions_BT, const Tensor& inverse_frequencies_P) {
  return at::empty({positions_BT.size(0), positions_BT.size(1), 4 * inverse_frequencies_P.size(0)},
                   positions_BT.options().dtype(at::kFloat));
}

Tensor rope_cache_cpu(const Tensor& positions_BT, const Tensor& inverse_frequencies_P) {
  const auto angles = rope_angles(positions_BT, inverse_frequencies_P);
  const auto cos = angles.cos(), sin = angles.sin();
  return at::cat({cos, cos, sin, sin}, -1);
}

}  // namespace

Tensor rope_inverse_frequencies(int64_t head_dim, double theta) {
  if (head_dim < 2 || head_dim % 2 != 0) throw ValueError("rope: head_dim is {}; it must be even", head_dim);
  const auto exponents =
      at::arange(0, head_dim, 2, at::TensorOptions(at::kFloat)).div(static_cast<double>(head_dim));
  return at::pow(theta, exponents).reciprocal();
}

Tensor rope_cache(const Tensor& positions_BT, const Tensor& inverse_frequencies_P) {
  static const auto op = find_operator<Tensor(const Tensor&, const Tensor&)>("titan::rope_cache");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(positions_BT, inverse_frequencies_P);
}

std::pair<Tensor, Tensor> rope_cos_sin(const Tensor& q_BTNH, const Tensor& k_BTKH, const Tensor& cache_BT2H) {
  static const auto op = find_operator<RopeOperator>("titan::rope");
  auto [q, k] = op.call(q_BTNH, k_BTKH, cache_BT2H, false);
  return {q, k};
}

Tensor rope_complex_cache(const Tensor& positions_BT, const Tensor& inverse_frequencies_P) {
  const int64_t pairs = inverse_frequencies_P.size(0);
  const auto cache = rope_cache(positions_BT, inverse_frequencies_P);
  return at::stack({cache.narrow(-1, 0, pairs), cache.narrow(-1, 2 * pairs, pairs)}, -1);
}

std::pair<Tensor, Tensor> rope_complex(const Tensor& q_BTNH, const Tensor& k_BTKH, const Tensor& cache_BTP2) {
  if (cache_BTP2.dim() != 4 || cache_BTP2.size(3) != 2) {
    throw ValueError("rope: the complex cache is {}; it must be [B, T, H/2, 2]", cache_BTP2.sizes());
  }
  const auto cos = cache_BTP2.select(-1, 0), sin = cache_BTP2.select(-1, 1);
  return rope_cos_sin(q_BTNH, k_BTKH, at::cat({cos, cos, sin, sin}, -1));
}

}  // namespace titan

TORCH_LIBRARY_FRAGMENT(titan, m) {
  m.def("rope_cache(Tensor positions, Tensor inverse_frequencies) -> Tensor");
  m.def("rope(Tensor q, Tensor k, Tensor cache, bool inverse) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(titan, CPU, m) {
  m.impl("rope_cache", titan::rope_cache_cpu);
  m.impl("rope", titan::rope_cpu);
}
TORCH_LIBRARY_IMPL(titan, Meta, m) {
  m.impl("rope_cache", titan::rope_cache_shape);
  m.impl("rope", titan::rope_shape);
}
TORCH_LIBRARY_IMPL(titan, Autograd, m) { m.impl("rope", titan::rope_autograd); }
