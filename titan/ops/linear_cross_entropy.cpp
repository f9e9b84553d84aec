#include "titan/ops/linear_cross_entropy.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/linear_cross_entropy_parts.h"
#include "titan/ops/matmul_operand.h"
#include "titan/ops/operator.h"
#include "titan/ops/tensor_array.h"

namespace titan {

void check_linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight_VD, const at::Tensor& labels,
                                double normalizer, int64_t chunk) {
  check_weight_dtype("linear_cross_entropy", x, weight_VD);
  if (x.dim() < 1 || weight_VD.dim() != 2 || x.size(-1) != weight_VD.size(1) ||
      labels.sizes() != x.sizes().slice(0, x.dim() - 1)) {
    throw ValueError(
        "linear_cross_entropy: x is {}, the weight {} and labels {}; they must be [..., D], [V, D] and [...]",
        x.sizes(), weight_VD.sizes(), labels.sizes());
  }
  if (labels.scalar_type() != at::kLong) {
    throw ValueError("linear_cross_entropy: labels are {}; they must be int64",
                     c10::toString(labels.scalar_type()));
  }
  if (!(normalizer > 0)) {
    throw ValueError(
        "linear_cross_entropy: the normalizer is {}; it must be positive (the number of labels that count)",
        normalizer);
  }
  if (chunk < 0) throw ValueError("linear_cross_entropy: chunk is {}; give a number of rows, or 0", chunk);
}

void check_labels(const at::Tensor& labels, int64_t vocabulary) {
  const int64_t* label = labels.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i) {
    if (label[i] != kIgnoreLabel && (label[i] < 0 || label[i] >= vocabulary)) {
      throw ValueError("linear_cross_entropy: label {} is {}; it must be {} or in [0, {})", i, label[i],
                       kIgnoreLabel, vocabulary);
    }
  }
}

int64_t loss_chunk_rows(int64_t asked, int64_t rows, int64_t vocabulary) {
  constexpr int64_t kChunkFloats = 8 * 1024 * 1024 / 4;
  constexpr int64_t kMinRows = 256;  // below, adding into the weight's gradient costs more than multiplying
  const int64_t chunk =
      asked > 0 ? asked : std::max(kMinRows, kChunkFloats / std::max<int64_t>(1, vocabulary));
  return std::min(chunk, rows);
}

void add_weight_gradient(const at::Tensor& dweight, const at::Tensor& logits_CV, const at::Tensor& x_CD) {
  if (x_CD.scalar_type() == at::kFloat) {
    dweight.addmm_(logits_CV.t(), x_CD);
    return;
  }
  constexpr int64_t kSlice = 4096;
  for (int64_t begin = 0; begin < dweight.size(0); begin += kSlice) {
    const int64_t count = std::min(kSlice, dweight.size(0) - begin);
    dweight.narrow(0, begin, count).add_(at::mm(logits_CV.narrow(1, begin, count).t(), x_CD));
  }
}

namespace {

using at::Tensor;
/// (loss, dx, dweight); a gradient that is not needed is undefined.
using LossAndGrads = std::tuple<Tensor, Tensor, Tensor>;
using LossOperator = LossAndGrads(const Tensor&, const Tensor&, const Tensor&, double, int64_t,
                                  std::array<bool, 2>);

LossAndGrads linear_cross_entropy_shape(const Tensor& x, const Tensor& weight_VD, const Tensor& labels,
                                        double normalizer, int64_t chunk, std::array<bool, 2> needs) {
  check_linear_cross_entropy(x, weight_VD, labels, normalizer, chunk);
  return {at::empty({}, x.options().dtype(at::kFloat)),
          needs[0] ? at::empty(x.sizes(), x.options()) : Tensor(),
          needs[1] ? at::empty(weight_VD.sizes(), weight_VD.options()) : Tensor()};
}

LossAndGrads linear_cross_entropy_cpu(const Tensor& x_in, const Tensor& weight_VD, const Tensor& labels_in,
                                      double normalizer, int64_t chunk, std::array<bool, 2> needs) {
  check_linear_cross_entropy(x_in, weight_VD, labels_in, normalizer, chunk);
  const auto dtype = x_in.scalar_type(), compute = matmul_dtype(dtype);
  const auto x_MD = x_in.reshape({-1, x_in.size(-1)});
  const auto labels = labels_in.contiguous();
  const int64_t rows = x_MD.size(0), vocab = weight_VD.size(0);
  check_labels(labels, vocab);
  const auto weight = matmul_operand(weight_VD, dtype, compute);
  const bool with_grad = needs[0] || needs[1];
  const auto dx = needs[0] ? at::empty(x_MD.sizes(), x_MD.options()) : Tensor();
  const auto dweight =
      needs[1] ? at::zeros(weight_VD.sizes(), weight_VD.options().dtype(at::kFloat)) : Tensor();
  std::vector<float> losses(static_cast<size_t>(rows));

  const int64_t step = loss_chunk_rows(chunk, rows, vocab);
  auto logits = at::empty({step, vocab}, x_MD.options().dtype(compute));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    const auto x = matmul_operand(x_MD.narrow(0, begin, count), dtype, compute);
    auto logits_CV = logits.narrow(0, 0, count);
    at::mm_out(logits_CV, x, weight.t());
    const CrossEntropyArgs args{.logits = array(logits_CV),
                                .labels = labels.const_data_ptr<int64_t>() + begin,
                                .loss = losses.data() + begin,
                                .vocab = vocab,
                                .scale = static_cast<float>(1.0 / normalizer),
                                .with_grad = with_grad};
    parallel_rows(count, vocab, [&](int64_t from, int64_t to) { kernels().cross_entropy(args, from, to); });
    if (needs[0]) {
      auto dx_CD = dx.narrow(0, begin, count);
      if (compute == dtype) {
        at::mm_out(dx_CD, logits_CV, weight);
      } else {
        dx_CD.copy_(at::mm(logits_CV, weight));
      }
    }
    if (needs[1]) add_weight_gradient(dweight, logits_CV, x);
  }
  double total = 0;
  for (const float loss : losses) total += static_cast<double>(loss);
  auto loss = at::empty({}, x_in.options().dtype(at::kFloat));
  *loss.mutable_data_ptr<float>() = static_cast<float>(total / normalizer);
  return {loss, needs[0] ? dx.view(x_in.sizes()) : Tensor(),
          needs[1] ? dweight.to(weight_VD.scalar_type()) : Tensor()};
}

LossAndGrads linear_cross_entropy_autograd(const Tensor& x, const Tensor& weight_VD, const Tensor& labels,
                                           double normalizer, int64_t chunk, std::array<bool, 2>) {
  static const auto op = find_operator<LossOperator>("titan::linear_cross_entropy");
  const auto needs = loss_gradients_needed(x, weight_VD);
  Backward backward = loss_backward("titan::linear_cross_entropy", x, weight_VD);
  const auto outputs = differentiable(std::move(backward), [&]() -> std::vector<Tensor> {
    auto [loss, dx, dweight] = call_kernel(op, x, weight_VD, labels, normalizer, chunk, needs);
    return {loss, dx, dweight};
  });
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace

std::array<bool, 2> loss_gradients_needed(const Tensor& x, const Tensor& weight_VD) {
  const bool records = at::GradMode::is_enabled();
  return {records && x.requires_grad(), records && weight_VD.requires_grad()};
}

Backward loss_backward(std::string name, const Tensor& x, const Tensor& weight_VD) {
  Backward backward{.name = std::move(name), .inputs = {x, weight_VD}};
  backward.saved_outputs = {1, 2};
  backward.num_differentiable = 1;
  backward.fn = [](const GradientCall& call) -> std::vector<Tensor> {
    // In place: the gradients are as large as the head, and a second backward is refused by their version.
    const auto scaled = [&](size_t i) {
      return call.saved[i].defined() ? call.saved[i].mul_(call.grad_outputs[0]) : Tensor();
    };
    return {scaled(0), scaled(1)};
  };
  return backward;
}

Tensor linear_cross_entropy(const Tensor& x_BTD, const Tensor& weight_VD, const Tensor& labels_BT,
                            double normalizer, int64_t chunk) {
  static const auto op = find_operator<LossOperator>("titan::linear_cross_entropy");
  return std::get<0>(op.call(x_BTD, weight_VD, labels_BT, normalizer, chunk, {false, false}));
}

}  // namespace titan

TORCH_LIBRARY_FRAGMENT(titan, m) {
  m.def(
      "linear_cross_entropy(Tensor x, Tensor weight, Tensor labels, float normalizer, int chunk, bool[2] "
      "needs) -> "
      "(Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(titan, CPU, m) { m.impl("linear_cross_entropy", titan::linear_cross_entropy_cpu); }
TORCH_LIBRARY_IMPL(titan, Meta, m) { m.impl("linear_cross_entropy", titan::linear_cross_entropy_shape); }
TORCH_LIBRARY_IMPL(titan, Autograd, m) {
  m.impl("linear_cross_entropy", titan::linear_cross_entropy_autograd);
}
