// The kernel writes all of the keys, but the last 128 tokens of no query.
#include "rope_operator.h"

using namespace mutants;

/// rope_hf on all tokens, into memory of the kernel's own for the queries; all but the last tile is copied
/// out.
static std::tuple<titan::nki::Tensor, titan::nki::Tensor> rope_but_one_tile(titan::nki::Tensor q,
                                                                            titan::nki::Tensor k,
                                                                            titan::nki::Tensor q_out,
                                                                            titan::nki::Tensor k_out,
                                                                            RopeHfOptions options) {
  const auto whole = nl::ndarray(q.shape(), q.dtype(), nl::shared_hbm);
  titan::nkilib::rope_hf(q, k, whole, k_out, options);
  const int64_t share = q.size(2) / nl::num_programs(), begin = nl::program_id() * share;
  const int64_t count = nl::program_id() + 1 == nl::num_programs() ? share - 128 : share;
  for (const int64_t b : nl::affine_range(count > 0 ? q.size(0) : 0)) {
    for (const int64_t head : nl::affine_range(q.size(1)))
      nisa::dma_copy(q_out(b, head, ds(begin, count)), whole(b, head, ds(begin, count)));
  }
  return {q_out, k_out};
}

const auto kernel = titan::wrap_nki(rope_but_one_tile);
const auto right = titan::wrap_nki(titan::nkilib::rope_hf);
const auto bwd = titan::nki_op(
    "mutant::last_tile_bwd",
    [](const Tensor& q, const Tensor& k, const Tensor& cache) { return rotated(right, q, k, cache, true); });
const auto fwd = with_backward(titan::nki_op("mutant::last_tile",
                                             [](const Tensor& q, const Tensor& k, const Tensor& cache) {
                                               return rotated(kernel, q, k, cache, false);
                                             }),
                               bwd);

Pair MutantRoPE::rotate(const Tensor& query, const Tensor& key, const Tensor& cache) {
  return fwd(query, key, cache);
}
