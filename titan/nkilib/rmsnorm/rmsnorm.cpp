// Shapes: R rows, H features; P rows of a tile (at most 128: the last tile of a core may have fewer), C
// columns that are worked on at once, N how many times C columns make H.
#include "titan/nkilib/rmsnorm/rmsnorm.h"

#include <algorithm>
#include <cmath>

#include "titan/base/error.h"

namespace titan::nkilib {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using nki::all;
using nki::ds;
using nki::shape_text;
using nki::Slice;
using nki::Tensor;

constexpr int64_t kNormRows = nl::tile_size.pmax;  ///< the most P
constexpr int64_t kNormColumns = 2048;             ///< the most C
constexpr int64_t kNormMostFeatures = 16384;       ///< two float32 rows of H and some of C fit a partition

void check_norm_contract(const Tensor& x, const Tensor& weight) {
  if (x.ndim() != 2 || weight.ndim() != 1 || x.size(1) != weight.size(0)) {
    throw ValueError("rmsnorm takes x [rows, features] and weight [features], got {} and {}",
                     shape_text(x.shape()), shape_text(weight.shape()));
  }
  if (x.size(1) > kNormMostFeatures) {
    throw ValueError("rmsnorm takes up to {} features, got {}", kNormMostFeatures, x.size(1));
  }
  if (!nki::is_float(x.dtype()) || !nki::is_float(weight.dtype())) {
    throw ValueError("rmsnorm takes floating-point numbers, got x {} and weight {}",
                     nki::dtype_name(x.dtype()), nki::dtype_name(weight.dtype()));
  }
}

void check_norm_gradient(const Tensor& dy, const Tensor& x, const Tensor& rstd) {
  if (dy.shape() != x.shape() || dy.dtype() != x.dtype()) {
    throw ValueError("rmsnorm_backward: dy {} {} has to be like x {} {}", shape_text(dy.shape()),
                     nki::dtype_name(dy.dtype()), shape_text(x.shape()), nki::dtype_name(x.dtype()));
  }
  if (rstd.shape() != std::vector<int64_t>{x.size(0), 1} || rstd.dtype() != nl::float32) {
    throw ValueError("rmsnorm_backward: rstd {} {} has to be [{}, 1] float32, as rmsnorm gives it",
                     shape_text(rstd.shape()), nki::dtype_name(rstd.dtype()), x.size(0));
  }
}

/// `tile` for each run of at most 128 rows of this core's share.
template <class Tile>
void for_row_tiles(int64_t rows, const Tile& tile) {
  const int64_t share = (rows + nl::num_programs() - 1) / nl::num_programs();
  const int64_t begin = std::min(rows, nl::program_id() * share), end = std::min(rows, begin + share);
  for (int64_t first = begin; first < end; first += kNormRows) {
    tile(ds(first, std::min(kNormRows, end - first)));
  }
}

/// `block(columns, n)` for the n-th run of at most `width` of H columns.
template <class Block>
void for_column_blocks(int64_t features, int64_t width, const Block& block) {
  for (int64_t first = 0; first < features; first += width) {
    block(ds(first, std::min(width, features - first)), first / width);
  }
}

int64_t count_of(Slice run) { return run.stop - run.start; }
int64_t num_blocks(int64_t features) { return (features + kNormColumns - 1) / kNormColumns; }

/// [P, C] of HBM in SBUF, as it is.
Tensor load_norm_block(const Tensor& from, Slice rows, Slice columns) {
  const Tensor tile = nl::ndarray({count_of(rows), count_of(columns)}, from.dtype());
  nisa::dma_copy(tile, from(rows, columns));
  return tile;
}

/// The weight in every partition: [128, H] float32.
Tensor load_norm_weight(const Tensor& weight) {
  const Tensor weight_PH = nl::ndarray({kNormRows, weight.size(0)}, nl::float32);
  nisa::dma_copy(weight_PH, weight.expand_dim(0).broadcast(0, kNormRows));
  return weight_PH;
}

/// rsqrt(mean(x^2) + eps) of the rows of x [P, H]: [P, 1].
Tensor reciprocal_norms(const Tensor& x_PH, double eps) {
  const int64_t rows = x_PH.partitions(), features = x_PH.size(1);
  const Tensor sums_PN = nl::ndarray({rows, num_blocks(features)}, nl::float32);
  const Tensor rstd_P1 = nl::ndarray({rows, 1}, nl::float32);
  for_column_blocks(features, kNormColumns, [&](Slice columns, int64_t n) {
    const Tensor squares_PC = nl::ndarray({rows, count_of(columns)}, nl::float32);
    nisa::activation_reduce(squares_PC, nl::square, x_PH(all, columns), nl::add, sums_PN(all, ds(n, 1)));
  });
  nisa::tensor_reduce(rstd_P1, nl::add, sums_PN, {1});
  nisa::tensor_scalar(rstd_P1, rstd_P1, nl::multiply, 1.0 / static_cast<double>(features),
                      {.op1 = nl::add, .operand1 = eps});
  nisa::activation(rstd_P1, nl::rsqrt, rstd_P1);
  return rstd_P1;
}

/// Adds dy * x * rstd, the rows' parts of the weight's gradient, to parts [128, H]. Gives mean(dy * weight *
/// x * rstd) * -rstd [P, 1]: the part of x in its own gradient.
Tensor add_weight_parts(const Tensor& parts_PH, const Tensor& dy, const Tensor& x, const Tensor& weight_PH,
                        const Tensor& rstd_P1, Slice rows) {
  const int64_t count = count_of(rows), features = x.size(1);
  const Tensor sums_PN = nl::ndarray({count, num_blocks(features)}, nl::float32);
  for_column_blocks(features, kNormColumns, [&](Slice columns, int64_t n) {
    const Tensor x_PC = load_norm_block(x, rows, columns), dy_PC = load_norm_block(dy, rows, columns);
    const Tensor part_PC = nl::ndarray({count, count_of(columns)}, nl::float32);
    const Tensor sum_PC = parts_PH(ds(0, count), columns);
    nisa::scalar_tensor_tensor(part_PC, x_PC, nl::multiply, rstd_P1, nl::multiply, dy_PC);
    nisa::tensor_tensor(sum_PC, sum_PC, part_PC, nl::add);
    nisa::tensor_tensor(part_PC, part_PC, weight_PH(ds(0, count), columns), nl::multiply);
    nisa::tensor_reduce(sums_PN(all, ds(n, 1)), nl::add, part_PC, {1});
  });
  const Tensor scale_P1 = nl::ndarray({count, 1}, nl::float32);
  nisa::tensor_reduce(scale_P1, nl::add, sums_PN, {1});
  nisa::tensor_scalar(scale_P1, scale_P1, nl::multiply, -1.0 / static_cast<double>(features),
                      {.op1 = nl::multiply, .operand1 = rstd_P1});
  return scale_P1;
}

/// dx = rstd * (weight * dy + scale * x). x and dy are read again: they do not fit beside the sums.
void store_input_gradient(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight_PH,
                          const Tensor& rstd_P1, const Tensor& scale_P1, Slice rows) {
  const int64_t count = count_of(rows);
  for_column_blocks(x.size(1), kNormColumns, [&](Slice columns, int64_t) {
    const Tensor x_PC = load_norm_block(x, rows, columns), dy_PC = load_norm_block(dy, rows, columns);
    const Tensor sum_PC = nl::ndarray({count, count_of(columns)}, nl::float32);
    const Tensor dx_PC = nl::ndarray({count, count_of(columns)}, dx.dtype());
    nisa::tensor_tensor(sum_PC, dy_PC, weight_PH(ds(0, count), columns), nl::multiply);
    nisa::scalar_tensor_tensor(sum_PC, x_PC, nl::multiply, scale_P1, nl::add, sum_PC);
    nisa::tensor_scalar(dx_PC, sum_PC, nl::multiply, rstd_P1);
    nisa::dma_copy(dx(rows, columns), dx_PC);
  });
}

/// dweight [H] = sum of parts [128, H] over the partitions, by a matmul with ones, and over the cores.
void store_weight_gradient(const Tensor& dweight, const Tensor& parts_PH) {
  const Tensor ones_P1 = nl::ndarray({kNormRows, 1}, nl::float32);
  nisa::memset(ones_P1, 1);
  for_column_blocks(dweight.size(0), nl::tile_size.gemm_moving_fmax, [&](Slice columns, int64_t) {
    const Tensor psum_1C = nl::ndarray({1, count_of(columns)}, nl::float32, nl::psum);
    const Tensor mine_1C = nl::ndarray({1, count_of(columns)}, nl::float32);
    nisa::nc_matmul(psum_1C, ones_P1, parts_PH(all, columns));
    nisa::tensor_copy(mine_1C, psum_1C);
    if (nl::num_programs() == 2) {
      const Tensor theirs_1C = nl::ndarray({1, count_of(columns)}, nl::float32);
      const int64_t other = 1 - nl::program_id();
      nisa::sendrecv(mine_1C, theirs_1C, {.send_to_rank = other, .recv_from_rank = other});
      nisa::tensor_tensor(mine_1C, mine_1C, theirs_1C, nl::add);
    }
    if (nl::program_id() == 0) nisa::dma_copy(dweight(columns), mine_1C);
  });
}

}  // namespace

std::tuple<Tensor, Tensor> rmsnorm(Tensor x, Tensor weight, RmsNormOptions options) {
  check_norm_contract(x, weight);
  if (!std::isfinite(options.eps) || options.eps < 0) {
    throw ValueError("rmsnorm: eps has to be a number that is not negative, got {}", options.eps);
  }
  const Tensor y = nl::ndarray(x.shape(), x.dtype(), {.buffer = nl::shared_hbm, .name = "y"});
  const Tensor rstd = nl::ndarray({x.size(0), 1}, nl::float32, {.buffer = nl::shared_hbm, .name = "rstd"});

  const Tensor weight_PH = load_norm_weight(weight);
  for_row_tiles(x.size(0), [&](Slice rows) {
    const Tensor x_PH = load_norm_block(x, rows, ds(0, x.size(1)));
    const Tensor rstd_P1 = reciprocal_norms(x_PH, options.eps);
    nisa::dma_copy(rstd(rows), rstd_P1);
    for_column_blocks(x.size(1), kNormColumns, [&](Slice columns, int64_t) {
      const Tensor y_PC = nl::ndarray({count_of(rows), count_of(columns)}, y.dtype());
      nisa::scalar_tensor_tensor(y_PC, x_PH(all, columns), nl::multiply, rstd_P1, nl::multiply,
                                 weight_PH(ds(0, count_of(rows)), columns));
      nisa::dma_copy(y(rows, columns), y_PC);
    });
  });
  return {y, rstd};
}

std::tuple<Tensor, Tensor> rmsnorm_backward(Tensor dy, Tensor x, Tensor weight, Tensor rstd) {
  check_norm_contract(x, weight);
  check_norm_gradient(dy, x, rstd);
  const Tensor dx = nl::ndarray(x.shape(), x.dtype(), {.buffer = nl::shared_hbm, .name = "dx"});
  const Tensor dweight =
      nl::ndarray(weight.shape(), weight.dtype(), {.buffer = nl::shared_hbm, .name = "dweight"});

  const Tensor weight_PH = load_norm_weight(weight);
  const Tensor parts_PH = nl::ndarray({kNormRows, x.size(1)}, nl::float32);
  nisa::memset(parts_PH, 0);
  for_row_tiles(x.size(0), [&](Slice rows) {
    const Tensor rstd_P1 = load_norm_block(rstd, rows, ds(0, 1));
    const Tensor scale_P1 = add_weight_parts(parts_PH, dy, x, weight_PH, rstd_P1, rows);
    store_input_gradient(dx, dy, x, weight_PH, rstd_P1, scale_P1, rows);
  });
  store_weight_gradient(dweight, parts_PH);
  return {dx, dweight};
}

}  // namespace titan::nkilib
