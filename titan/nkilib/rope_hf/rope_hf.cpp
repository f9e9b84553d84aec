// Shapes: B batch, H heads, S sequence, D head_dim; P = 128 rows of a tile, T tiles of one DMA. C columns of
// a table of angles: D of cos and of sin, 2D of a rope_cache.
#include "titan/nkilib/rope_hf/rope_hf.h"

#include <algorithm>
#include <string>

#include "titan/base/error.h"

namespace titan::nkilib {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using nki::all;
using nki::ds;
using nki::shape_text;
using nki::Tensor;

constexpr int64_t kRopeRows = nl::tile_size.pmax;  ///< P
constexpr int64_t kRopeTilesOfDma = 8;             ///< the most T
/// The most bytes of a head: 4.5 tiles [P, T, D] (cos, sin, x, y and half a term) are in the 192 KiB of a
/// partition, each from a multiple of 64 on.
constexpr int64_t kRopeHeadBytes = 5456;

/// Cosines or sines: the D columns from `column` on of a table [S, C] or [B, S, C].
struct RopeAngles {
  Tensor table;
  int64_t column = 0;

  bool has_batch() const { return table.ndim() == 3; }
};

void check_rope_tensor(const char* name, const Tensor& tensor) {
  if (!tensor.is_contiguous()) {
    throw ValueError("rope_hf: {} {} is a view with gaps or in another order; give it contiguous", name,
                     shape_text(tensor.shape()));
  }
  if (!nki::is_float(tensor.dtype())) {
    throw ValueError("rope_hf: {} is {}; rotations are of floating-point numbers", name,
                     nki::dtype_name(tensor.dtype()));
  }
}

/// x [B, H, S, D] and what it is rotated into.
void check_rope_pair(const std::string& name, const Tensor& x, const Tensor& out, const Tensor& q) {
  check_rope_tensor(name.c_str(), x);
  check_rope_tensor((name + "_out").c_str(), out);
  if (x.ndim() != 4) {
    throw ValueError("rope_hf: {} has to be [batch, heads, sequence, head_dim], got {}", name,
                     shape_text(x.shape()));
  }
  if (x.size(0) != q.size(0) || x.size(2) != q.size(2) || x.size(3) != q.size(3)) {
    throw ValueError("rope_hf: q {} and {} {} may differ in their heads only", shape_text(q.shape()), name,
                     shape_text(x.shape()));
  }
  if (out.shape() != x.shape()) {
    throw ValueError("rope_hf: {}_out {} has to have {}'s shape {}", name, shape_text(out.shape()), name,
                     shape_text(x.shape()));
  }
  if (x.dtype() != q.dtype() || out.dtype() != q.dtype()) {
    throw ValueError("rope_hf: {} is {} and {}_out {}; both have to have q's dtype {}", name,
                     nki::dtype_name(x.dtype()), name, nki::dtype_name(out.dtype()),
                     nki::dtype_name(q.dtype()));
  }
}

void check_rope_table(const char* name, const Tensor& table, int64_t columns, const Tensor& q) {
  check_rope_tensor(name, table);
  const int64_t batch = q.size(0), length = q.size(2);
  const std::string shape = shape_text(table.shape());
  if (table.ndim() != 2 && table.ndim() != 3) {
    throw ValueError("rope_hf: {} has to be [sequence, {}] or [batch, sequence, {}], got {}", name, columns,
                     columns, shape);
  }
  const bool has_batch = table.ndim() == 3;
  const int64_t rows = table.size(has_batch ? 1 : 0);
  if (table.size(table.ndim() - 1) != columns) {
    throw ValueError("rope_hf: {} {} has to have {} columns for head_dim {}", name, shape, columns,
                     q.size(3));
  }
  if (has_batch && table.size(0) != batch) {
    throw ValueError("rope_hf: {} {} has to have q's batch of {}", name, shape, batch);
  }
  if (rows < length) {
    throw ValueError("rope_hf: {} {} has to have a row for each of the {} positions", name, shape, length);
  }
  if (!has_batch && batch > 1 && rows != length) {
    throw ValueError(
        "rope_hf: {} {} has no batch dimension, so for a batch of {} it has to have exactly {} rows; give "
        "positions that differ between sequences as [{}, {}, {}]",
        name, shape, batch, length, batch, length, columns);
  }
}

void check_rope_contract(const Tensor& q, const Tensor& k, const Tensor& q_out, const Tensor& k_out,
                         const RopeHfOptions& options) {
  check_rope_pair("q", q, q_out, q);
  check_rope_pair("k", k, k_out, q);
  const int64_t length = q.size(2), head_dim = q.size(3), stride = kRopeRows * nl::num_programs();
  if (head_dim % 2 != 0) throw ValueError("rope_hf: head_dim has to be even, got {}", head_dim);
  const int64_t most = kRopeHeadBytes / nki::itemsize(q.dtype());
  if (head_dim > most) {
    throw ValueError("rope_hf: head_dim has to be at most {} for {}, got {}", most,
                     nki::dtype_name(q.dtype()), head_dim);
  }
  const bool has_cos = options.cos.has_value(), has_sin = options.sin.has_value();
  if (options.rope_cache ? has_cos || has_sin : !has_cos || !has_sin) {
    throw ValueError("rope_hf takes either rope_cache or both cos and sin");
  }
  if (options.rope_cache) {
    check_rope_table("rope_cache", *options.rope_cache, 2 * head_dim, q);
  } else {
    check_rope_table("cos", *options.cos, head_dim, q);
    check_rope_table("sin", *options.sin, head_dim, q);
    if (options.cos->shape() != options.sin->shape()) {
      throw ValueError("rope_hf: cos {} and sin {} have to have the same shape",
                       shape_text(options.cos->shape()), shape_text(options.sin->shape()));
    }
  }
  if (length % stride != 0) {
    throw ValueError("rope_hf: seq len must be multiple of 128 * LNC={}, got {}", stride, length);
  }
}

/// T tiles of `x`, rows of `columns` numbers from row `first` on, seen as [P, T, D]: partition p of tile t is
/// row first + t * P + p. `x` begins at the first of its D columns.
Tensor rope_tiles(const Tensor& x, int64_t first, int64_t tiles, int64_t columns) {
  const int64_t head_dim = x.size(1);
  return x(ds(first, tiles * kRopeRows))
      .ap({.pattern = {{columns, kRopeRows}, {kRopeRows * columns, tiles}, {1, head_dim}}});
}

/// The angles of T tiles [P, T, D] in SBUF; the DMA casts them to x's dtype.
Tensor load_angles(const RopeAngles& angles, int64_t batch, int64_t first, int64_t tiles, const Tensor& x) {
  const int64_t head_dim = x.size(3), columns = angles.table.size(angles.table.ndim() - 1);
  const Tensor rows_SC = angles.has_batch() ? angles.table(batch) : angles.table;
  const Tensor tile_PTD = nl::ndarray({kRopeRows, tiles, head_dim}, x.dtype());
  nisa::dma_copy(tile_PTD, rope_tiles(rows_SC(all, ds(angles.column, head_dim)), first, tiles, columns));
  return tile_PTD;
}

/// y = x * cos + rotate_half(x) * sin; backward x * cos + rotate_half_backward(x * sin). All [P, T, D].
void rotate(const Tensor& y, const Tensor& x, const Tensor& cos, const Tensor& sin, bool backward) {
  const int64_t tiles = x.size(1), half = x.size(2) / 2;
  const nki::Slice low = ds(0, half), high = ds(half, half);
  const Tensor y_low = y(all, all, low), y_high = y(all, all, high);
  const Tensor term = nl::ndarray({kRopeRows, tiles, half}, x.dtype());

  nisa::tensor_tensor(y, x, cos, nl::multiply);
  nisa::tensor_tensor(term, x(all, all, high), sin(all, all, backward ? high : low), nl::multiply);
  nisa::tensor_tensor(y_low, y_low, term, backward ? nl::add : nl::subtract);
  nisa::tensor_tensor(term, x(all, all, low), sin(all, all, backward ? low : high), nl::multiply);
  nisa::tensor_tensor(y_high, y_high, term, backward ? nl::subtract : nl::add);
}

/// T tiles of every head of one sequence: x and out [H, S, D].
void rotate_heads(const Tensor& out, const Tensor& x, int64_t first, const Tensor& cos, const Tensor& sin,
                  bool backward) {
  const int64_t tiles = cos.size(1), head_dim = cos.size(2);
  for (const int64_t head : nl::affine_range(x.size(0))) {
    const Tensor x_PTD = nl::ndarray({kRopeRows, tiles, head_dim}, x.dtype());
    const Tensor y_PTD = nl::ndarray({kRopeRows, tiles, head_dim}, x.dtype());
    nisa::dma_copy(x_PTD, rope_tiles(x(head), first, tiles, head_dim));
    rotate(y_PTD, x_PTD, cos, sin, backward);
    nisa::dma_copy(rope_tiles(out(head), first, tiles, head_dim), y_PTD);
  }
}

}  // namespace

std::tuple<Tensor, Tensor> rope_hf(Tensor q, Tensor k, Tensor q_out, Tensor k_out, RopeHfOptions options) {
  check_rope_contract(q, k, q_out, k_out, options);
  const RopeAngles cosines = {options.rope_cache ? *options.rope_cache : *options.cos};
  const RopeAngles sines = options.rope_cache ? RopeAngles{*options.rope_cache, q.size(3)}  //
                                              : RopeAngles{*options.sin};

  // Each core turns its share of the rows.
  const int64_t share = q.size(2) / nl::num_programs(), begin = nl::program_id() * share;
  for (int64_t first = begin; first < begin + share; first += kRopeTilesOfDma * kRopeRows) {
    const int64_t tiles = std::min(kRopeTilesOfDma, (begin + share - first) / kRopeRows);
    Tensor cos_PTD, sin_PTD;
    for (const int64_t b : nl::affine_range(q.size(0))) {
      if (b == 0 || cosines.has_batch()) {
        cos_PTD = load_angles(cosines, b, first, tiles, q);
        sin_PTD = load_angles(sines, b, first, tiles, q);
      }
      rotate_heads(q_out(b), q(b), first, cos_PTD, sin_PTD, options.backward);
      rotate_heads(k_out(b), k(b), first, cos_PTD, sin_PTD, options.backward);
    }
  }
  return {q_out, k_out};
}

}  // namespace titan::nkilib
