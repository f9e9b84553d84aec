// Shapes: P positions, V vocabulary; R <= positions_per_batch rows of a batch, one a partition; C columns of
// a chunk, W of a window.
#include "titan/nkilib/cross_entropy/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "titan/base/error.h"
#include "titan/nkilib/cross_entropy/cross_entropy_contract.h"

namespace titan::nkilib {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using nki::all;
using nki::ds;
using nki::Tensor;

constexpr int64_t kLossWindow = 2048;  ///< the most W
constexpr double kLossInfinity = std::numeric_limits<double>::infinity();
/// A maximum to begin with: exp(-infinity - it) is 0, where -infinity itself would give NaN.
constexpr double kLossLowest = std::numeric_limits<float>::lowest();

/// Calls `batch(first, rows)` for this core's share of the positions.
template <class Batch>
void for_each_batch(int64_t positions, int64_t positions_per_batch, Batch batch) {
  const int64_t share = (positions + nl::num_programs() - 1) / nl::num_programs();
  const int64_t begin = nl::program_id() * share, end = std::min(begin + share, positions);
  for (int64_t first = begin; first < end; first += positions_per_batch) {
    batch(first, std::min(positions_per_batch, end - first));
  }
}

/// A number for each row [R, 1], from HBM [P]; the DMA casts it.
Tensor load_numbers(const Tensor& numbers, int64_t first, int64_t rows, nki::Dtype dtype) {
  const Tensor numbers_R1 = nl::ndarray({rows, 1}, dtype);
  nisa::dma_copy(numbers_R1, numbers(ds(first, rows)));
  return numbers_R1;
}

/// What is known of each row after some of its chunks, [R, 1] in float32.
struct RunningSoftmax {
  Tensor max, sum;  ///< sum of exp(x - max)
};

RunningSoftmax empty_softmax(int64_t rows) {
  const RunningSoftmax softmax = {nl::ndarray({rows, 1}, nl::float32), nl::ndarray({rows, 1}, nl::float32)};
  nisa::memset(softmax.max, kLossLowest);
  nisa::memset(softmax.sum, 0);
  return softmax;
}

/// The W columns of a chunk of `columns` that begin at `begin`.
nki::Slice loss_window(int64_t begin, int64_t columns) {
  return ds(begin, std::min(kLossWindow, columns - begin));
}

/// x = exp(x - max) and its sum over C, [R, 1], of a chunk [R, C]. Each window is summed by itself: a sum
/// over all columns would have grown past the small ones among the last.
Tensor exponentials(const Tensor& x_RC, const Tensor& negated_max) {
  const int64_t rows = x_RC.size(0), columns = x_RC.size(1);
  const Tensor sums = nl::ndarray({rows, (columns + kLossWindow - 1) / kLossWindow}, nl::float32);
  const Tensor sum = nl::ndarray({rows, 1}, nl::float32);
  for (const int64_t n : nl::affine_range(sums.size(1))) {
    const Tensor x_RW = x_RC(all, loss_window(n * kLossWindow, columns));
    nisa::activation_reduce(x_RW, nl::exp, x_RW, nl::add, sums(all, ds(n, 1)), {.bias = negated_max});
  }
  nisa::tensor_reduce(sum, nl::add, sums, {1});
  return sum;
}

/// Takes a chunk [R, C] in, which is overwritten.
void add_chunk(const RunningSoftmax& softmax, const Tensor& x_RC) {
  const std::vector<int64_t> numbers = {x_RC.size(0), 1};
  const Tensor max = nl::ndarray(numbers, nl::float32), negated_max = nl::ndarray(numbers, nl::float32);
  const Tensor rescale = nl::ndarray(numbers, nl::float32);

  nisa::tensor_reduce(max, nl::maximum, x_RC, {1});
  nisa::tensor_tensor(max, max, softmax.max, nl::maximum);
  nisa::tensor_scalar(negated_max, max, nl::multiply, -1.0);
  const Tensor sum = exponentials(x_RC, negated_max);
  nisa::activation(rescale, nl::exp, softmax.max, {.bias = negated_max});
  nisa::scalar_tensor_tensor(softmax.sum, softmax.sum, nl::multiply, rescale, nl::add, sum);
  nisa::tensor_copy(softmax.max, max);
}

/// The maxima and sums of rows first .. first + rows - 1 of logits [P, V].
RunningSoftmax softmax_of_rows(const Tensor& logits, int64_t first, int64_t rows, int64_t chunk_size) {
  const RunningSoftmax softmax = empty_softmax(rows);
  for (int64_t column = 0; column < logits.size(1); column += chunk_size) {
    const int64_t width = std::min(chunk_size, logits.size(1) - column);
    const Tensor x_RC = nl::ndarray({rows, chunk_size}, logits.dtype());
    if (width < chunk_size) nisa::memset(x_RC(all, ds(width, chunk_size - width)), -kLossInfinity);
    nisa::dma_copy(x_RC(all, ds(0, width)), logits(ds(first, rows), ds(column, width)));
    add_chunk(softmax, x_RC);
  }
  return softmax;
}

/// logits[p, targets[p]] of each row [R, 1]: a DMA each, whose address the target is.
Tensor load_target_logits(const Tensor& logits, const Tensor& targets, int64_t first, int64_t rows) {
  const Tensor target_R1 = load_numbers(targets, first, rows, nl::int32);
  const Tensor logit_R1 = nl::ndarray({rows, 1}, logits.dtype());
  for (const int64_t row : nl::affine_range(rows)) {
    const Tensor target = target_R1(row), logits_V1 = logits(first + row).reshape({logits.size(1), 1});
    nisa::dma_copy(logit_R1(row), logits_V1.ap({.pattern = {{1, 1}}, .scalar_offset = target}));
  }
  return logit_R1;
}

/// The targets of a batch as float32 [R, 1]. A logit of each row is read by its target and not used, for that
/// refuses targets outside of the vocabulary.
Tensor load_targets(const Tensor& logits, const Tensor& targets, int64_t first, int64_t rows) {
  const Tensor target_R1 = load_numbers(targets, first, rows, nl::int32);
  const Tensor logit_R1 = nl::ndarray({rows, 1}, logits.dtype()),
               number_R1 = nl::ndarray({rows, 1}, nl::float32);
  const Tensor logits_V1 = logits(first).reshape({logits.size(1), 1});
  nisa::dma_copy(logit_R1, logits_V1.ap({.pattern = {{1, rows}, {1, 1}}, .vector_offset = target_R1}));
  nisa::tensor_copy(number_R1, target_R1);
  return number_R1;
}

/// What the gradient of a batch needs of each row, [R, 1] in float32.
struct LossRows {
  Tensor target, negated_lse;
};

/// The gradient of columns first .. first + W - 1 over their logits x [R, W].
void overwrite_by_gradient(const Tensor& x_RW, int64_t first, const LossRows& of, const Tensor& columns_RW,
                           double scale) {
  const Tensor gradient_RW = nl::ndarray(x_RW.shape(), nl::float32);
  const Tensor column_R1 = nl::ndarray({x_RW.size(0), 1}, nl::float32);
  nisa::activation(gradient_RW, nl::exp, x_RW, {.bias = of.negated_lse});
  // gradient - (column == target)
  nisa::tensor_scalar(column_R1, of.target, nl::subtract, static_cast<double>(first));
  nisa::scalar_tensor_tensor(gradient_RW, columns_RW, nl::equal, column_R1, nl::subtract, gradient_RW,
                             {.reverse1 = true});
  nisa::tensor_scalar(x_RW, gradient_RW, nl::multiply, scale);
}

/// Rows first .. first + R - 1 of the gradient [P, V]. `columns` [positions_per_batch, W] hold 0 .. W - 1.
void write_gradient_rows(const Tensor& gradient, const Tensor& logits, int64_t first, const LossRows& of,
                         const Tensor& columns, const LossTiling& tiling, double scale) {
  const int64_t rows = of.target.size(0);
  for (int64_t column = 0; column < logits.size(1); column += tiling.chunk_size) {
    const int64_t width = std::min(tiling.chunk_size, logits.size(1) - column);
    const Tensor x_RC = nl::ndarray({rows, width}, logits.dtype());
    nisa::dma_copy(x_RC, logits(ds(first, rows), ds(column, width)));
    for (int64_t begin = 0; begin < width; begin += kLossWindow) {
      const nki::Slice window = loss_window(begin, width);
      const Tensor columns_RW = columns(ds(0, rows), ds(0, window.stop - window.start));
      overwrite_by_gradient(x_RC(all, window), column + begin, of, columns_RW, scale);
    }
    nisa::dma_copy(gradient(ds(first, rows), ds(column, width)), x_RC);
  }
}

}  // namespace

std::tuple<Tensor, Tensor> cross_entropy_forward(Tensor logits, Tensor targets, CrossEntropyOptions options) {
  check_loss_contract(logits, targets, {options.positions_per_batch, options.chunk_size});
  const nki::Dtype dtype = options.dtype.value_or(logits.dtype());
  if (!is_loss_dtype(dtype)) {
    throw ValueError("cross_entropy: loss and lse are float32 or bfloat16, got dtype {}",
                     nki::dtype_name(dtype));
  }
  const int64_t positions = logits.size(0);
  const Tensor loss = nl::ndarray({positions}, dtype, {.buffer = nl::shared_hbm, .name = "loss"});
  const Tensor lse = nl::ndarray({positions}, dtype, {.buffer = nl::shared_hbm, .name = "lse"});

  for_each_batch(positions, options.positions_per_batch, [&](int64_t first, int64_t rows) {
    const RunningSoftmax softmax = softmax_of_rows(logits, first, rows, options.chunk_size);
    const Tensor lse_R1 = nl::ndarray({rows, 1}, nl::float32), loss_R1 = nl::ndarray({rows, 1}, nl::float32);
    nisa::activation(lse_R1, nl::log, softmax.sum);
    nisa::tensor_tensor(lse_R1, lse_R1, softmax.max, nl::add);
    nisa::tensor_tensor(loss_R1, lse_R1, load_target_logits(logits, targets, first, rows), nl::subtract);
    nisa::dma_copy(lse(ds(first, rows)), lse_R1);
    nisa::dma_copy(loss(ds(first, rows)), loss_R1);
  });
  return {loss, lse};
}

Tensor cross_entropy_backward(Tensor logits, Tensor targets, Tensor lse,
                              CrossEntropyBackwardOptions options) {
  const LossTiling tiling = {options.positions_per_batch, options.chunk_size};
  check_loss_contract(logits, targets, tiling);
  check_loss_vector("lse", lse, logits);
  if (!is_loss_dtype(lse.dtype())) {
    throw ValueError("cross_entropy: lse has to be float32 or bfloat16, got {}",
                     nki::dtype_name(lse.dtype()));
  }
  const int64_t positions = logits.size(0);
  const double scale = options.reduction == LossReduction::mean ? 1.0 / static_cast<double>(positions) : 1.0;
  const Tensor gradient = options.inplace ? logits
                                          : nl::ndarray(logits.shape(), logits.dtype(),
                                                        {.buffer = nl::shared_hbm, .name = "gradient"});
  const int64_t window = std::min(kLossWindow, options.chunk_size);
  const Tensor columns = nl::ndarray({options.positions_per_batch, window}, nl::float32);
  nisa::iota(columns, {{1, window}});

  for_each_batch(positions, options.positions_per_batch, [&](int64_t first, int64_t rows) {
    const LossRows of = {load_targets(logits, targets, first, rows),
                         load_numbers(lse, first, rows, nl::float32)};
    nisa::tensor_scalar(of.negated_lse, of.negated_lse, nl::multiply, -1.0);
    write_gradient_rows(gradient, logits, first, of, columns, tiling, scale);
  });
  return gradient;
}

}  // namespace titan::nkilib
