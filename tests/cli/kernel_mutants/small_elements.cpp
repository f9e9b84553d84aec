// In bfloat16 results below 0.04 become 0: far less than what the largest element may be off by.
#include <ATen/TensorOperators.h>

#include "rope_operator.h"

using namespace mutants;

const auto kernel = titan::wrap_nki(titan::nkilib::rope_hf);
const auto bwd = titan::nki_op(
    "mutant::coarse_bwd",
    [](const Tensor& q, const Tensor& k, const Tensor& cache) { return rotated(kernel, q, k, cache, true); });

static Tensor without_small(const Tensor& x) {
  return x.scalar_type() == at::kBFloat16 ? x * (x.abs() > 0.04).to(at::kBFloat16) : x;
}

const auto fwd = with_backward(titan::nki_op("mutant::coarse",
                                             [](const Tensor& q, const Tensor& k, const Tensor& cache) {
                                               const auto [query, key] = rotated(kernel, q, k, cache, false);
                                               return std::tuple(without_small(query), without_small(key));
                                             }),
                               bwd);

Pair MutantRoPE::rotate(const Tensor& query, const Tensor& key, const Tensor& cache) {
  return fwd(query, key, cache);
}
