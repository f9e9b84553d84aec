// The rows of the cache one after another: right for a batch of one.
#include "rope_operator.h"

using namespace mutants;

const auto kernel = titan::wrap_nki(titan::nkilib::rope_hf);
const auto bwd =
    titan::nki_op("mutant::flattened_bwd", [](const Tensor& q, const Tensor& k, const Tensor& cache) {
      return rotated(kernel, q, k, cache.reshape({-1, cache.size(-1)}), true);
    });
const auto fwd =
    with_backward(titan::nki_op("mutant::flattened",
                                [](const Tensor& q, const Tensor& k, const Tensor& cache) {
                                  return rotated(kernel, q, k, cache.reshape({-1, cache.size(-1)}), false);
                                }),
                  bwd);

Pair MutantRoPE::rotate(const Tensor& query, const Tensor& key, const Tensor& cache) {
  return fwd(query, key, cache);
}
