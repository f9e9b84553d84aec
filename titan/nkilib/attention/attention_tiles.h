// Shapes: B batch, S sequence, Hq and Hk heads of queries and keys, D head dimension. P = 128 queries of a
// tile, one a partition; K <= 512 keys of a tile, seen as T blocks of P.
#pragma once

#include <cstdint>

#include "titan/nkilib/attention/attention.h"

namespace titan::nkilib {

inline constexpr int64_t kQueryTile = 128;  ///< P
inline constexpr int64_t kKeyTile = 512;    ///< the most K

/// What the passes share: sizes, with the options' defaults filled in.
struct AttentionShape {
  int64_t batch, length, q_heads, k_heads, head_dim;
  nki::Dtype dtype;
  double scale;
  bool causal;

  int64_t group() const { return q_heads / k_heads; }  ///< query heads of a key head
};

/// ValueError unless q, k, v and the options fit each other and the contract.
AttentionShape attention_shape(const nki::Tensor& q, const nki::Tensor& k, const nki::Tensor& v,
                               const AttentionOptions& options);

/// The P queries from `first` on, and, where documents are given, the first and last key that each sees.
struct QueryTile {
  int64_t first;
  nki::Tensor lowest_P1 = {}, highest_P1 = {};

  int64_t num_keys(const AttentionShape& shape) const {
    return shape.causal ? first + kQueryTile : shape.length;
  }
};
QueryTile query_tile(int64_t batch, int64_t first, const AttentionOptions& options);

/// Keys first .. first + K - 1.
struct KeyTile {
  int64_t first, count;

  nki::Slice keys() const { return nki::ds(first, count); }
  nki::Slice blocks() const { return nki::ds(first / kQueryTile, count / kQueryTile); }
};

/// Calls `visit(KeyTile)` for the tiles that some query of `queries` sees a key of.
template <class Visit>
void for_each_key_tile(const QueryTile& queries, const AttentionShape& shape, Visit visit) {
  const int64_t num_keys = queries.num_keys(shape);
  for (int64_t first = 0; first < num_keys; first += kKeyTile) {
    visit(KeyTile{first, first + kKeyTile < num_keys ? kKeyTile : num_keys - first});
  }
}

/// From HBM [R, D] into SBUF: as it is (R <= P), transposed [D, R], and in blocks of rows [P, R / P, D].
nki::Tensor load_rows(const nki::Tensor& x_RD);
nki::Tensor load_transposed(const nki::Tensor& x_RD);
nki::Tensor load_blocks(const nki::Tensor& x_RD);
/// HBM [R, D] seen as blocks of rows [P, R / P, D].
nki::Tensor blocks_of(const nki::Tensor& x_RD);
/// P numbers of HBM as [P, 1] in float32.
nki::Tensor load_column(const nki::Tensor& x_P);

/// left^T right in PSUM, [P, K]: of queries [D, P] and keys [D, K] their products.
nki::Tensor products(const nki::Tensor& left_DP, const nki::Tensor& right_DK);

/// Scores [P, K] in PSUM where a query sees the key, elsewhere the smallest float32.
nki::Tensor visible_scores(const nki::Tensor& scores_PK, const QueryTile& queries, const KeyTile& keys,
                           const AttentionShape& shape);

/// x [P, K] as blocks with keys on the partitions, [P keys, T, P queries].
nki::Tensor transposed_blocks(const nki::Tensor& x_PK);

}  // namespace titan::nkilib
