// Shapes: see attention_tiles.h.
//
// With s = scale q k^T, p = exp(s - lse) and delta = sum over D of out * dout:
//   dv = p^T dout,  ds = p * (dout v^T - delta),  dq = scale ds k,  dk = scale ds^T q.
// p and ds stand queries by keys, as matmuls that sum over queries take them; for dq ds is transposed.
#include "titan/base/error.h"
#include "titan/nkilib/attention/attention_tiles.h"

namespace titan::nkilib {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using nki::all;
using nki::ds;
using nki::shape_text;
using nki::Tensor;

void check_gradient_operands(const AttentionGradients& of, const Tensor& q, const AttentionShape& shape) {
  if (of.out.shape() != q.shape() || of.dout.shape() != q.shape()) {
    throw ValueError("attention: out {} and dout {} have to have q's shape {}", shape_text(of.out.shape()),
                     shape_text(of.dout.shape()), shape_text(q.shape()));
  }
  if (of.out.dtype() != q.dtype() || of.dout.dtype() != q.dtype()) {
    throw ValueError("attention: out and dout have to have q's dtype {}, got {} and {}",
                     nki::dtype_name(q.dtype()), nki::dtype_name(of.out.dtype()),
                     nki::dtype_name(of.dout.dtype()));
  }
  const std::vector<int64_t> numbers = {shape.batch, shape.q_heads, shape.length};
  if (of.lse.shape() != numbers || of.lse.dtype() != nki::Dtype::float32) {
    throw ValueError("attention: lse has to be {} float32, got {} {}", shape_text(numbers),
                     shape_text(of.lse.shape()), nki::dtype_name(of.lse.dtype()));
  }
}

/// A key head's tensors in SBUF; the gradients are float32, dk without the scale.
struct HeadGradients {
  Tensor k_DS, v_DS, k_PTD, dk_PTD, dv_PTD;
};

HeadGradients load_head(const Tensor& k_SD, const Tensor& v_SD) {
  HeadGradients head = {
      .k_DS = load_transposed(k_SD), .v_DS = load_transposed(v_SD), .k_PTD = load_blocks(k_SD)};
  head.dk_PTD = nl::ndarray(head.k_PTD.shape(), nl::float32);
  head.dv_PTD = nl::ndarray(head.k_PTD.shape(), nl::float32);
  nisa::memset(head.dk_PTD, 0);
  nisa::memset(head.dv_PTD, 0);
  return head;
}

/// P queries' tensors in SBUF.
struct QueryGradients {
  Tensor q_DP, q_PD, dout_DP, dout_PD;
  Tensor negated_lse_P1, delta_P1;  ///< float32
};

QueryGradients load_queries(const Tensor& q, const AttentionGradients& rows) {
  const QueryGradients queries = {.q_DP = load_transposed(q),
                                  .q_PD = load_rows(q),
                                  .dout_DP = load_transposed(rows.dout),
                                  .dout_PD = load_rows(rows.dout),
                                  .negated_lse_P1 = load_column(rows.lse),
                                  .delta_P1 = nl::ndarray({kQueryTile, 1}, nl::float32)};
  const Tensor terms_PD = nl::ndarray(q.shape(), nl::float32);
  nisa::tensor_tensor(terms_PD, load_rows(rows.out), queries.dout_PD, nl::multiply);
  nisa::tensor_reduce(queries.delta_P1, nl::add, terms_PD, {1});
  nisa::tensor_scalar(queries.negated_lse_P1, queries.negated_lse_P1, nl::multiply, -1.0);
  return queries;
}

/// p and ds [P, K] in q's dtype.
struct ScoreGradients {
  Tensor p_PK, ds_PK;
};

ScoreGradients score_gradients(const QueryGradients& rows, const HeadGradients& head,
                               const QueryTile& queries, const KeyTile& keys, const AttentionShape& shape) {
  const std::vector<int64_t> tile = {kQueryTile, keys.count};
  const ScoreGradients result = {nl::ndarray(tile, shape.dtype), nl::ndarray(tile, shape.dtype)};
  const Tensor scores_PK = products(rows.q_DP, head.k_DS(all, keys.keys()));
  const Tensor dp_PK = products(rows.dout_DP, head.v_DS(all, keys.keys()));
  nisa::activation(result.p_PK, nl::exp, visible_scores(scores_PK, queries, keys, shape),
                   {.bias = rows.negated_lse_P1, .scale = shape.scale});
  nisa::scalar_tensor_tensor(result.ds_PK, dp_PK, nl::subtract, rows.delta_P1, nl::multiply, result.p_PK);
  return result;
}

/// sum [P, T, D] += weights^T x, of weights [P, K] and x [P, D].
void add_over_queries(const Tensor& sum_PTD, const Tensor& weights_PK, const Tensor& x_PD) {
  const Tensor product_PTD = nl::ndarray(sum_PTD.shape(), nl::float32, nl::psum);
  for (const int64_t t : nl::affine_range(sum_PTD.size(1))) {
    nisa::nc_matmul(product_PTD(all, t), weights_PK(all, ds(t * kQueryTile, kQueryTile)), x_PD);
  }
  nisa::tensor_tensor(sum_PTD, sum_PTD, product_PTD, nl::add);
}

/// dq [P, D] += ds k, in PSUM, where the first of all the blocks overwrites.
void add_over_keys(const Tensor& dq_PD, const Tensor& ds_PK, const Tensor& k_PTD) {
  const Tensor ds_PTP = transposed_blocks(ds_PK);
  for (const int64_t t : nl::affine_range(ds_PTP.size(1))) {
    nisa::nc_matmul(dq_PD, ds_PTP(all, t), k_PTD(all, t));
  }
}

/// x * scale in HBM's dtype, into HBM.
void store_scaled(const Tensor& hbm, const Tensor& x, double scale) {
  const Tensor scaled = nl::ndarray(x.shape(), hbm.dtype());
  nisa::tensor_scalar(scaled, x, nl::multiply, scale);
  nisa::dma_copy(hbm, scaled);
}

/// dq of P queries into HBM [P, D], and their part of the head's dk and dv.
void add_queries(const Tensor& dq, const QueryGradients& rows, const HeadGradients& head,
                 const QueryTile& queries, const AttentionShape& shape) {
  const Tensor dq_PD = nl::ndarray({kQueryTile, shape.head_dim}, nl::float32, nl::psum);
  for_each_key_tile(queries, shape, [&](const KeyTile& keys) {
    const ScoreGradients of = score_gradients(rows, head, queries, keys, shape);
    add_over_queries(head.dv_PTD(all, keys.blocks()), of.p_PK, rows.dout_PD);
    add_over_queries(head.dk_PTD(all, keys.blocks()), of.ds_PK, rows.q_PD);
    add_over_keys(dq_PD, of.ds_PK, head.k_PTD(all, keys.blocks()));
  });
  store_scaled(dq, dq_PD, shape.scale);
}

/// A gradient [S, D] of keys or values into HBM, block by block.
void store_blocks(const Tensor& hbm_SD, const Tensor& x_PTD, double scale) {
  for (const int64_t t : nl::affine_range(x_PTD.size(1))) {
    store_scaled(hbm_SD(ds(t * kQueryTile, kQueryTile)), x_PTD(all, t), scale);
  }
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> attention_backward(Tensor q, Tensor k, Tensor v, AttentionGradients of,
                                                      AttentionOptions options) {
  const AttentionShape shape = attention_shape(q, k, v, options);
  check_gradient_operands(of, q, shape);
  const Tensor dq = nl::ndarray(q.shape(), q.dtype(), {.buffer = nl::shared_hbm, .name = "dq"});
  const Tensor dk = nl::ndarray(k.shape(), k.dtype(), {.buffer = nl::shared_hbm, .name = "dk"});
  const Tensor dv = nl::ndarray(v.shape(), v.dtype(), {.buffer = nl::shared_hbm, .name = "dv"});

  for (int64_t i = nl::program_id(); i < shape.batch * shape.k_heads; i += nl::num_programs()) {
    const int64_t b = i / shape.k_heads, k_head = i % shape.k_heads;
    const HeadGradients head = load_head(k(b, all, k_head), v(b, all, k_head));
    for (int64_t first = 0; first < shape.length; first += kQueryTile) {
      const QueryTile queries = query_tile(b, first, options);
      const nki::Slice rows = ds(first, kQueryTile);
      for (const int64_t g : nl::affine_range(shape.group())) {
        const int64_t q_head = k_head * shape.group() + g;
        const AttentionGradients of_rows = {of.out(b, rows, q_head), of.lse(b, q_head, rows),
                                            of.dout(b, rows, q_head)};
        add_queries(dq(b, rows, q_head), load_queries(q(b, rows, q_head), of_rows), head, queries, shape);
      }
    }
    store_blocks(dk(b, all, k_head), head.dk_PTD, shape.scale);
    store_blocks(dv(b, all, k_head), head.dv_PTD, 1);
  }
  return {dq, dk, dv};
}

}  // namespace titan::nkilib
