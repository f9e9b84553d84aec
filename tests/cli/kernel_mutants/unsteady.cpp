// Right, but for a little more at each call, and for lengths that it does not take, of which it says so
// wrongly.
#include <ATen/TensorOperators.h>
#include <titan/ops/rope.h>

#include <stdexcept>

#include "rope_operator.h"

static int calls = 0;

mutants::Pair MutantRoPE::rotate(const at::Tensor& query, const at::Tensor& key, const at::Tensor& cache) {
  if (query.size(1) % 128 != 0) throw std::runtime_error("bad length");
  const auto [q, k] = titan::rope_cos_sin(query, key, cache);
  return {q + 1e-6 * ++calls, k};
}
