// The query's gradient for the key, and the other way round. Both have the same shape here: the model has as
// many key heads as query heads in the test.
#include "rope_operator.h"

using namespace mutants;

const auto kernel = titan::wrap_nki(titan::nkilib::rope_hf);
const auto bwd = titan::nki_op(
    "mutant::crossed_bwd",
    [](const Tensor& q, const Tensor& k, const Tensor& cache) { return rotated(kernel, q, k, cache, true); });
const auto fwd =
    titan::nki_op("mutant::crossed", [](const Tensor& q, const Tensor& k,
                                        const Tensor& cache) { return rotated(kernel, q, k, cache, false); })
        .register_autograd(
            [](titan::OpContext& ctx, const Tensor& q, const Tensor& k) {
              const auto [dq, dk] = bwd(q, k, ctx.saved_tensors()[0]);
              return std::tuple(dk, dq, Tensor());
            },
            {.setup_context = keep_cache});

Pair MutantRoPE::rotate(const Tensor& query, const Tensor& key, const Tensor& cache) {
  return fwd(query, key, cache);
}
