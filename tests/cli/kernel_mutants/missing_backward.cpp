// The forward alone.
#include "rope_operator.h"

using namespace mutants;

const auto kernel = titan::wrap_nki(titan::nkilib::rope_hf);
const auto fwd =
    titan::nki_op("mutant::no_backward", [](const Tensor& q, const Tensor& k, const Tensor& cache) {
      return rotated(kernel, q, k, cache, false);
    });

Pair MutantRoPE::rotate(const Tensor& query, const Tensor& key, const Tensor& cache) {
  return fwd(query, key, cache);
}
