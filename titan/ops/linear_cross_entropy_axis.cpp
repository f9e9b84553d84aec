#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/linear_cross_entropy.h"
#include "titan/ops/linear_cross_entropy_parts.h"
#include "titan/ops/matmul_operand.h"
#include "titan/ops/operator.h"
#include "titan/ops/tensor_array.h"

// The loss on a vocabulary that is cut over ranks. C rows of a chunk, V this rank's rows of the weight, R
// ranks.
namespace titan {

namespace {

using at::Tensor;

/// What a rank tells the others about one row.
struct RowStats {
  float max = 0;
  float sum_exp = 0;      ///< of exp(logit - max)
  float label_logit = 0;  ///< 0 where another rank holds the label
};
constexpr int64_t kStats = 3;
static_assert(sizeof(RowStats) == kStats * sizeof(float));

void row_stats_check(const Tensor& logits_CV, const Tensor& labels_C) {
  check(logits_CV.dim() == 2 && logits_CV.scalar_type() == at::kFloat && logits_CV.is_contiguous() &&
            labels_C.scalar_type() == at::kLong && labels_C.is_contiguous() &&
            labels_C.numel() == logits_CV.size(0),
        "logits are float32 [C, V] and labels int64 [C]");
}

Tensor row_stats_shape(const Tensor& logits_CV, const Tensor& labels_C, int64_t) {
  row_stats_check(logits_CV, labels_C);
  return at::empty({logits_CV.size(0), kStats}, logits_CV.options());
}

/// RowStats of each row; leaves exp(logit - max) where the logits were.
Tensor row_stats_cpu(const Tensor& logits_CV, const Tensor& labels_C, int64_t first_row) {
  auto stats = row_stats_shape(logits_CV, labels_C, first_row);
  auto* row = reinterpret_cast<RowStats*>(stats.mutable_data_ptr<float>());
  const int64_t rows = logits_CV.size(0), vocab = logits_CV.size(1);
  const int64_t* label = labels_C.const_data_ptr<int64_t>();
  const float* logits = logits_CV.const_data_ptr<float>();
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = label[i] - first_row;
    row[i].label_logit = label[i] >= 0 && at >= 0 && at < vocab ? logits[i * vocab + at] : 0;
  }
  const Tensor max_C = at::amax(logits_CV, {1});
  logits_CV.sub_(max_C.unsqueeze(1)).exp_();
  stats.select(1, 0).copy_(max_C);
  stats.select(1, 1).copy_(at::sum(logits_CV, {1}));
  return stats;
}

void row_gradients_shape(const Tensor& exp_CV, const Tensor& labels_C, int64_t, const Tensor&, double) {
  row_stats_check(exp_CV, labels_C);
}

/// Turns what row_stats left into the gradient: exp · factor_C, less `scale` at the label.
void row_gradients_cpu(const Tensor& exp_CV, const Tensor& labels_C, int64_t first_row,
                       const Tensor& factors_C, double scale) {
  row_gradients_shape(exp_CV, labels_C, first_row, factors_C, scale);
  exp_CV.mul_(factors_C.unsqueeze(1));
  const int64_t vocab = exp_CV.size(1);
  const int64_t* label = labels_C.const_data_ptr<int64_t>();
  float* gradient = exp_CV.mutable_data_ptr<float>();
  for (int64_t i = 0; i < exp_CV.size(0); ++i) {
    const int64_t at = label[i] - first_row;
    if (label[i] >= 0 && at >= 0 && at < vocab) gradient[i * vocab + at] -= static_cast<float>(scale);
  }
}

/// Adds up what all ranks [R, C, 3] say about the rows, in rank order: the losses, and what this rank's
/// exponentials are to be multiplied by to become gradients.
double combine(const Tensor& all_RC3, const Tensor& mine_C3, const Tensor& labels_C, double scale,
               const Tensor& factors_C) {
  const auto* all = reinterpret_cast<const RowStats*>(all_RC3.const_data_ptr<float>());
  const auto* mine = reinterpret_cast<const RowStats*>(mine_C3.const_data_ptr<float>());
  const int64_t* label = labels_C.const_data_ptr<int64_t>();
  float* factor = factors_C.mutable_data_ptr<float>();
  const int64_t ranks = all_RC3.size(0), rows = all_RC3.size(1);
  double loss = 0;
  for (int64_t i = 0; i < rows; ++i) {
    factor[i] = 0;
    if (label[i] < 0) continue;
    float max = all[i].max;
    for (int64_t r = 1; r < ranks; ++r) max = std::max(max, all[r * rows + i].max);
    double total = 0, label_logit = 0;
    for (int64_t r = 0; r < ranks; ++r) {
      const RowStats& of_rank = all[r * rows + i];
      total += std::exp(static_cast<double>(of_rank.max - max)) * static_cast<double>(of_rank.sum_exp);
      label_logit += static_cast<double>(of_rank.label_logit);
    }
    loss += static_cast<double>(max) + std::log(total) - label_logit;
    factor[i] = static_cast<float>(scale * std::exp(static_cast<double>(mine[i].max - max)) / total);
  }
  return loss;
}

using RowStatsOperator = Tensor(const Tensor&, const Tensor&, int64_t);
using RowGradientsOperator = void(const Tensor&, const Tensor&, int64_t, const Tensor&, double);

/// {loss, dx, dweight}; a gradient that is not needed is undefined.
std::vector<Tensor> loss_over_axis(const Tensor& x_in, const Tensor& weight_VD, const Tensor& labels_in,
                                   double normalizer, const VocabularyShard& shard,
                                   std::array<bool, 2> needs) {
  static const auto row_stats = find_operator<RowStatsOperator>("titan::row_stats_");
  static const auto row_gradients = find_operator<RowGradientsOperator>("titan::row_gradients_");
  const auto dtype = x_in.scalar_type(), compute = matmul_dtype(dtype);
  const auto x_MD = x_in.reshape({-1, x_in.size(-1)});
  const auto labels = labels_in.flatten().contiguous();
  const int64_t rows = x_MD.size(0), vocab = weight_VD.size(0), ranks = shard.axis.size;
  const double scale = 1.0 / normalizer;
  const auto dx = needs[0] ? at::empty(x_MD.sizes(), x_MD.options()) : Tensor();
  auto dweight = needs[1] ? at::zeros(weight_VD.sizes(), weight_VD.options().dtype(at::kFloat)) : Tensor();
  auto loss = at::zeros({}, x_in.options().dtype(at::kFloat));
  const auto results = [&] {
    return std::vector{loss, needs[0] ? dx.view(x_in.sizes()) : Tensor(),
                       needs[1] ? dweight.to(weight_VD.scalar_type()) : Tensor()};
  };
  if (x_in.is_meta()) return results();

  check_labels(labels, shard.rows.vocabulary);
  const auto weight = matmul_operand(weight_VD, dtype, compute);
  // Every rank takes the same rows at a time, whatever its share of the vocabulary.
  const int64_t step = loss_chunk_rows(shard.chunk, rows, (shard.rows.vocabulary + ranks - 1) / ranks);
  const auto products = at::empty({step, vocab}, x_MD.options().dtype(compute));
  const auto factors = at::empty({step}, x_MD.options().dtype(at::kFloat));
  double total = 0;
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    const auto x = matmul_operand(x_MD.narrow(0, begin, count), dtype, compute);
    const auto labels_C = labels.narrow(0, begin, count), factors_C = factors.narrow(0, 0, count);
    auto product_CV = products.narrow(0, 0, count);
    at::mm_out(product_CV, x, weight.t());
    // bfloat16 would round the exponentials.
    const auto logits_CV = product_CV.to(at::kFloat);
    const auto stats = row_stats.call(logits_CV, labels_C, shard.rows.first);
    const auto all = shard.axis.gather(stats.unsqueeze(0), ranks);
    total += combine(all, stats, labels_C, scale, factors_C);
    if (!needs[0] && !needs[1]) continue;
    row_gradients.call(logits_CV, labels_C, shard.rows.first, factors_C, scale);
    const auto gradient_CV = logits_CV.to(compute);
    if (needs[0]) dx.narrow(0, begin, count).copy_(at::mm(gradient_CV, weight));
    if (needs[1]) add_weight_gradient(dweight, gradient_CV, x);
  }
  loss.fill_(total / normalizer);
  return results();
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x_BTD, const Tensor& weight_VD, const Tensor& labels_BT,
                            double normalizer, const VocabularyShard& shard) {
  if (shard.axis.size == 1) {
    return linear_cross_entropy(x_BTD, weight_VD, labels_BT, normalizer, shard.chunk);
  }
  check_linear_cross_entropy(x_BTD, weight_VD, labels_BT, normalizer, shard.chunk);
  const auto needs = loss_gradients_needed(x_BTD, weight_VD);
  Backward backward = loss_backward("titan::linear_cross_entropy_over_axis", x_BTD, weight_VD);
  return differentiable(std::move(backward), [&]() -> std::vector<Tensor> {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return loss_over_axis(x_BTD, weight_VD, labels_BT, normalizer, shard, needs);
  })[0];
}

}  // namespace titan

TORCH_LIBRARY_FRAGMENT(titan, m) {
  m.def("row_stats_(Tensor(a!) logits, Tensor labels, int first_row) -> Tensor");
  m.def(
      "row_gradients_(Tensor(a!) exponentials, Tensor labels, int first_row, Tensor factors, float scale) -> "
      "()");
}
TORCH_LIBRARY_IMPL(titan, CPU, m) {
  m.impl("row_stats_", titan::row_stats_cpu);
  m.impl("row_gradients_", titan::row_gradients_cpu);
}
TORCH_LIBRARY_IMPL(titan, Meta, m) {
  m.impl("row_stats_", titan::row_stats_shape);
  m.impl("row_gradients_", titan::row_gradients_shape);
}
