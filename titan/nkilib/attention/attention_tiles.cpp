#include "titan/nkilib/attention/attention_tiles.h"

#include <cmath>
#include <limits>

#include "titan/base/error.h"

namespace titan::nkilib {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using nki::all;
using nki::ds;
using nki::shape_text;
using nki::Tensor;

/// Keys, their transposes, values and both gradients of 8192 rows take 160 of SBUF's 192 KiB a partition.
constexpr int64_t kLongestSequence = 8192;
constexpr double kMasked = std::numeric_limits<float>::lowest();  ///< range_select's own

void check_attention_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.ndim() != 4 || k.ndim() != 4) {
    throw ValueError("attention: q and k have to be [batch, sequence, heads, head_dim], got {} and {}",
                     shape_text(q.shape()), shape_text(k.shape()));
  }
  if (v.shape() != k.shape()) {
    throw ValueError("attention: v {} has to have k's shape {}", shape_text(v.shape()),
                     shape_text(k.shape()));
  }
  if (k.size(0) != q.size(0) || k.size(1) != q.size(1) || k.size(3) != q.size(3)) {
    throw ValueError("attention: q {} and k {} may differ in their heads only", shape_text(q.shape()),
                     shape_text(k.shape()));
  }
  if (q.dtype() != nki::Dtype::float32 && q.dtype() != nki::Dtype::bfloat16) {
    throw ValueError("attention: q has to be float32 or bfloat16, got {}", nki::dtype_name(q.dtype()));
  }
  if (k.dtype() != q.dtype() || v.dtype() != q.dtype()) {
    throw ValueError("attention: k and v have to have q's dtype {}, got {} and {}",
                     nki::dtype_name(q.dtype()), nki::dtype_name(k.dtype()), nki::dtype_name(v.dtype()));
  }
}

void check_attention_sizes(const AttentionShape& shape) {
  if (shape.q_heads % shape.k_heads != 0) {
    throw ValueError("attention: the {} heads of q have to be a multiple of k's {}", shape.q_heads,
                     shape.k_heads);
  }
  if (shape.length % kQueryTile != 0 || shape.length > kLongestSequence) {
    throw ValueError("attention: the sequence length has to be a multiple of {} and at most {}, got {}",
                     kQueryTile, kLongestSequence, shape.length);
  }
  if (shape.head_dim > nl::tile_size.pmax) {
    throw ValueError("attention: head_dim has to be at most {}, got {}", nl::tile_size.pmax, shape.head_dim);
  }
  // More could overflow what masked scores are.
  if (!(shape.scale > 0 && shape.scale <= 1)) {
    throw ValueError("attention: scale has to be above 0 and at most 1, got {}", shape.scale);
  }
}

void check_first_key(const Tensor& first_key, const AttentionShape& shape) {
  if (!shape.causal) throw ValueError("attention: first_key needs causal attention");
  if (first_key.shape() != std::vector<int64_t>{shape.batch, shape.length}) {
    throw ValueError("attention: first_key has to be [{}, {}], a key for each query, got {}", shape.batch,
                     shape.length, shape_text(first_key.shape()));
  }
  if (first_key.dtype() != nki::Dtype::int32) {
    throw ValueError("attention: first_key has to be int32, got {}", nki::dtype_name(first_key.dtype()));
  }
}

}  // namespace

AttentionShape attention_shape(const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionOptions& options) {
  check_attention_operands(q, k, v);
  const AttentionShape shape = {
      .batch = q.size(0),
      .length = q.size(1),
      .q_heads = q.size(2),
      .k_heads = k.size(2),
      .head_dim = q.size(3),
      .dtype = q.dtype(),
      .scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3)))),
      .causal = options.causal,
  };
  check_attention_sizes(shape);
  if (options.first_key) check_first_key(*options.first_key, shape);
  return shape;
}

QueryTile query_tile(int64_t batch, int64_t first, const AttentionOptions& options) {
  QueryTile tile = {.first = first};
  if (!options.first_key) return tile;
  tile.lowest_P1 = load_column((*options.first_key)(batch, ds(first, kQueryTile)));
  tile.highest_P1 = nl::ndarray({kQueryTile, 1}, nl::float32);
  nisa::iota(tile.highest_P1, {{1, 1}}, {.offset = first, .channel_multiplier = 1});
  nisa::tensor_tensor(tile.lowest_P1, tile.lowest_P1, tile.highest_P1, nl::minimum);
  return tile;
}

Tensor load_rows(const Tensor& x_RD) {
  const Tensor rows = nl::ndarray(x_RD.shape(), x_RD.dtype());
  nisa::dma_copy(rows, x_RD);
  return rows;
}

Tensor load_transposed(const Tensor& x_RD) {
  const Tensor x_DR = nl::ndarray({x_RD.size(1), x_RD.size(0)}, x_RD.dtype());
  nisa::dma_transpose(x_DR, x_RD);
  return x_DR;
}

Tensor blocks_of(const Tensor& x_RD) {
  return x_RD.reshape({x_RD.size(0) / kQueryTile, kQueryTile, x_RD.size(1)}).permute({1, 0, 2});
}

Tensor load_blocks(const Tensor& x_RD) { return load_rows(blocks_of(x_RD)); }

Tensor load_column(const Tensor& x_P) {
  const Tensor x_P1 = nl::ndarray({x_P.size(0), 1}, nl::float32);
  nisa::dma_copy(x_P1, x_P);
  return x_P1;
}

Tensor products(const Tensor& left_DP, const Tensor& right_DK) {
  const Tensor product_PK = nl::ndarray({left_DP.size(1), right_DK.size(1)}, nl::float32, nl::psum);
  nisa::nc_matmul(product_PK, left_DP, right_DK);
  return product_PK;
}

Tensor visible_scores(const Tensor& scores_PK, const QueryTile& queries, const KeyTile& keys,
                      const AttentionShape& shape) {
  const bool has_documents = queries.lowest_P1.defined();
  if (!has_documents && (!shape.causal || keys.first + keys.count <= queries.first)) return scores_PK;
  const Tensor visible_PK = nl::ndarray(scores_PK.shape(), nl::float32);
  if (has_documents) {
    nisa::range_select(visible_PK, scores_PK, nl::greater_equal, nl::less_equal, queries.lowest_P1,
                       queries.highest_P1, {.range_start = static_cast<double>(keys.first)});
    return visible_PK;
  }
  // The diagonal is in the last P keys: key i of them is seen where p - i >= 0.
  const Tensor diagonal_PP = visible_PK(all, ds(keys.count - kQueryTile, kQueryTile));
  nisa::tensor_copy(visible_PK, scores_PK);
  nisa::affine_select(diagonal_PP, {{-1, kQueryTile}}, 1, diagonal_PP, kMasked,
                      {.cmp_op = nl::greater_equal});
  return visible_PK;
}

Tensor transposed_blocks(const Tensor& x_PK) {
  const int64_t blocks = x_PK.size(1) / kQueryTile;
  const std::vector<int64_t> transposed = {kQueryTile, blocks, kQueryTile};
  const Tensor bank = nl::ndarray(transposed, x_PK.dtype(), nl::psum);
  for (const int64_t t : nl::affine_range(blocks)) {
    nisa::nc_transpose(bank(all, t), x_PK(all, ds(t * kQueryTile, kQueryTile)));
  }
  const Tensor x_PTP = nl::ndarray(transposed, x_PK.dtype());
  nisa::tensor_copy(x_PTP, bank);
  return x_PTP;
}

}  // namespace titan::nkilib
