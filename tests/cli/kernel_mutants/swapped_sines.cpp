// Sines of the second half for the first, and the other way round: only a cache whose halves differ shows it.
#include <ATen/ops/cat.h>

#include "rope_operator.h"

using namespace mutants;

static Tensor swapped(const Tensor& cache) {
  const int64_t half = cache.size(-1) / 4;
  return at::cat(
      {cache.narrow(-1, 0, 2 * half), cache.narrow(-1, 3 * half, half), cache.narrow(-1, 2 * half, half)},
      -1);
}

const auto kernel = titan::wrap_nki(titan::nkilib::rope_hf);
const auto bwd =
    titan::nki_op("mutant::swapped_bwd", [](const Tensor& q, const Tensor& k, const Tensor& cache) {
      return rotated(kernel, q, k, swapped(cache), true);
    });
const auto fwd = with_backward(titan::nki_op("mutant::swapped",
                                             [](const Tensor& q, const Tensor& k, const Tensor& cache) {
                                               return rotated(kernel, q, k, swapped(cache), false);
                                             }),
                               bwd);

Pair MutantRoPE::rotate(const Tensor& query, const Tensor& key, const Tensor& cache) {
  return fwd(query, key, cache);
}
