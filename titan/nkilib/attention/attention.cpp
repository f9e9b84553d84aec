// Shapes: see attention_tiles.h.
#include "titan/nkilib/attention/attention.h"

#include <limits>

#include "titan/nkilib/attention/attention_tiles.h"

namespace titan::nkilib {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using nki::all;
using nki::ds;
using nki::Tensor;

/// A key head's tensors in SBUF.
struct HeadKeys {
  Tensor k_DS, v_PTD;
};

/// What is known of P queries after some of their keys, in float32. `max` is of scores without the scale,
/// `sum` of exp(scale (score - max)), `out` of the same times v.
struct RunningAttention {
  Tensor max_P1, sum_P1, out_PD;
};

RunningAttention no_keys_yet(const AttentionShape& shape) {
  const RunningAttention rows = {nl::ndarray({kQueryTile, 1}, nl::float32),
                                 nl::ndarray({kQueryTile, 1}, nl::float32),
                                 nl::ndarray({kQueryTile, shape.head_dim}, nl::float32)};
  nisa::memset(rows.max_P1, std::numeric_limits<float>::lowest());
  nisa::memset(rows.sum_P1, 0);
  nisa::memset(rows.out_PD, 0);
  return rows;
}

/// The probabilities of keys [P, K], but for a factor of each query. Moves the maximum and the sum on, and
/// gives what earlier keys' share is multiplied by.
struct Probabilities {
  Tensor p_PK, rescale_P1;
};
Probabilities add_scores(const RunningAttention& rows, const Tensor& scores_PK, const AttentionShape& shape) {
  const Probabilities result = {nl::ndarray(scores_PK.shape(), shape.dtype),
                                nl::ndarray({kQueryTile, 1}, nl::float32)};
  const Tensor max_P1 = nl::ndarray({kQueryTile, 1}, nl::float32);
  const Tensor bias_P1 = nl::ndarray({kQueryTile, 1}, nl::float32);
  const Tensor sum_P1 = nl::ndarray({kQueryTile, 1}, nl::float32);
  const nisa::ActivationOptions shifted = {.bias = bias_P1, .scale = shape.scale};

  nisa::tensor_reduce(max_P1, nl::maximum, scores_PK, {1});
  nisa::tensor_tensor(max_P1, max_P1, rows.max_P1, nl::maximum);
  nisa::tensor_scalar(bias_P1, max_P1, nl::multiply, -shape.scale);
  nisa::activation_reduce(result.p_PK, nl::exp, scores_PK, nl::add, sum_P1, shifted);
  nisa::activation(result.rescale_P1, nl::exp, rows.max_P1, shifted);
  nisa::scalar_tensor_tensor(rows.sum_P1, rows.sum_P1, nl::multiply, result.rescale_P1, nl::add, sum_P1);
  nisa::tensor_copy(rows.max_P1, max_P1);
  return result;
}

/// out = out * rescale + p v, the blocks summed in PSUM.
void add_values(const RunningAttention& rows, const Probabilities& of, const Tensor& v_PTD) {
  const Tensor p_PTP = transposed_blocks(of.p_PK);
  const Tensor pv_PD = nl::ndarray(rows.out_PD.shape(), nl::float32, nl::psum);
  for (const int64_t t : nl::affine_range(p_PTP.size(1))) {
    nisa::nc_matmul(pv_PD, p_PTP(all, t), v_PTD(all, t));
  }
  nisa::scalar_tensor_tensor(rows.out_PD, rows.out_PD, nl::multiply, of.rescale_P1, nl::add, pv_PD);
}

/// The attention of P queries [P, D] of HBM.
RunningAttention attend(const Tensor& q_PD, const HeadKeys& head, const QueryTile& queries,
                        const AttentionShape& shape) {
  const Tensor q_DP = load_transposed(q_PD);
  const RunningAttention rows = no_keys_yet(shape);
  for_each_key_tile(queries, shape, [&](const KeyTile& keys) {
    const Tensor scores_PK = products(q_DP, head.k_DS(all, keys.keys()));
    const Probabilities added = add_scores(rows, visible_scores(scores_PK, queries, keys, shape), shape);
    add_values(rows, added, head.v_PTD(all, keys.blocks()));
  });
  return rows;
}

/// out / sum into out [P, D], and scale max + log sum into lse [P], of HBM.
void store_attention(const Tensor& out, const Tensor& lse, const RunningAttention& rows,
                     const AttentionShape& shape) {
  const Tensor inverse_P1 = nl::ndarray({kQueryTile, 1}, nl::float32);
  const Tensor lse_P1 = nl::ndarray({kQueryTile, 1}, nl::float32);
  const Tensor out_PD = nl::ndarray(rows.out_PD.shape(), shape.dtype);
  nisa::reciprocal(inverse_P1, rows.sum_P1);
  nisa::tensor_scalar(out_PD, rows.out_PD, nl::multiply, inverse_P1);
  nisa::activation(lse_P1, nl::log, rows.sum_P1);
  nisa::scalar_tensor_tensor(lse_P1, rows.max_P1, nl::multiply, shape.scale, nl::add, lse_P1);
  nisa::dma_copy(out, out_PD);
  nisa::dma_copy(lse, lse_P1);
}

}  // namespace

std::tuple<Tensor, Tensor> attention_forward(Tensor q, Tensor k, Tensor v, AttentionOptions options) {
  const AttentionShape shape = attention_shape(q, k, v, options);
  const Tensor out = nl::ndarray(q.shape(), q.dtype(), {.buffer = nl::shared_hbm, .name = "out"});
  const Tensor lse = nl::ndarray({shape.batch, shape.q_heads, shape.length}, nl::float32,
                                 {.buffer = nl::shared_hbm, .name = "lse"});
  const int64_t stride = kQueryTile * nl::num_programs();

  for (const int64_t b : nl::affine_range(shape.batch)) {
    for (const int64_t k_head : nl::affine_range(shape.k_heads)) {
      const HeadKeys head = {load_transposed(k(b, all, k_head)), load_blocks(v(b, all, k_head))};
      for (int64_t first = kQueryTile * nl::program_id(); first < shape.length; first += stride) {
        const QueryTile queries = query_tile(b, first, options);
        const nki::Slice rows = ds(first, kQueryTile);
        for (const int64_t g : nl::affine_range(shape.group())) {
          const int64_t q_head = k_head * shape.group() + g;
          const RunningAttention attended = attend(q(b, rows, q_head), head, queries, shape);
          store_attention(out(b, rows, q_head), lse(b, q_head, rows), attended, shape);
        }
      }
    }
  }
  return {out, lse};
}

}  // namespace titan::nkilib
