#include "titan/ops/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/operator.h"
#include "titan/ops/tensor_array.h"

namespace titan {

namespace {

using at::Tensor;
using AdamWOperator = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, double, double,
                           double, double, double, int64_t, double);
using SquaredNormOperator = Tensor(at::TensorList);

/// A piece of one tensor of a list; pieces are shared among threads and give the order of sums.
struct TensorPiece {
  size_t tensor;
  int64_t begin, end;
};

std::vector<TensorPiece> pieces_of(at::TensorList tensors) {
  constexpr int64_t kPieceElements = 32768;
  std::vector<TensorPiece> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t count = tensors[i].defined() ? tensors[i].numel() : 0;
    for (int64_t begin = 0; begin < count; begin += kPieceElements) {
      pieces.push_back({i, begin, std::min(begin + kPieceElements, count)});
    }
  }
  return pieces;
}

void check_adamw_tensor(const Tensor& tensor, const Tensor& param, std::string_view role, size_t index) {
  element_of(tensor, format("adamw: {} {}", role, index));
  if (tensor.sizes() != param.sizes()) {
    throw ValueError("adamw: {} {} is {} and its parameter {}", role, index, tensor.sizes(), param.sizes());
  }
  if (role != "gradient" && !tensor.is_contiguous()) {
    throw ValueError("adamw: {} {} is not contiguous", role, index);
  }
}

void adamw_check(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs,
                 at::TensorList exp_avg_sqs, int64_t step) {
  if (grads.size() != params.size() || exp_avgs.size() != params.size() ||
      exp_avg_sqs.size() != params.size()) {
    throw ValueError(
        "adamw: {} parameters, {} gradients and {} and {} moments; the lists must be of one length",
        params.size(), grads.size(), exp_avgs.size(), exp_avg_sqs.size());
  }
  if (step < 1) throw ValueError("adamw: step is {}; it counts from 1", step);
  for (size_t i = 0; i < params.size(); ++i) {
    check_adamw_tensor(params[i], params[i], "parameter", i);
    if (!grads[i].defined()) continue;
    check_adamw_tensor(grads[i], params[i], "gradient", i);
    check_adamw_tensor(exp_avgs[i], params[i], "exp_avg", i);
    check_adamw_tensor(exp_avg_sqs[i], params[i], "exp_avg_sq", i);
    if (exp_avgs[i].scalar_type() != exp_avg_sqs[i].scalar_type()) {
      throw ValueError("adamw: the moments of parameter {} have different dtypes", i);
    }
  }
}

void adamw_cpu(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs,
               at::TensorList exp_avg_sqs, double lr, double beta1, double beta2, double eps,
               double weight_decay, int64_t step, double grad_scale) {
  adamw_check(params, grads, exp_avgs, exp_avg_sqs, step);
  std::vector<Tensor> rows(grads.size());
  std::vector<AdamWArgs> args(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    if (!grads[i].defined()) continue;
    rows[i] = grads[i].contiguous();
    args[i] = {.param = array(params[i]),
               .exp_avg = array(exp_avgs[i]),
               .exp_avg_sq = array(exp_avg_sqs[i]),
               .grad = const_array(rows[i]),
               .grad_scale = static_cast<float>(grad_scale),
               .decay = static_cast<float>(1 - lr * weight_decay),
               .rest1 = static_cast<float>(1 - beta1),
               .beta2 = static_cast<float>(beta2),
               .rest2 = static_cast<float>(1 - beta2),
               .step_size = static_cast<float>(lr / (1 - std::pow(beta1, step))),
               .bias_correction2_sqrt = static_cast<float>(std::sqrt(1 - std::pow(beta2, step))),
               .eps = static_cast<float>(eps)};
  }
  const auto pieces = pieces_of(rows);
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const TensorPiece& piece = pieces[static_cast<size_t>(i)];
      kernels().adamw(args[piece.tensor], piece.begin, piece.end);
    }
  });
}

void adamw_shape(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs,
                 at::TensorList exp_avg_sqs, double, double, double, double, double, int64_t step, double) {
  adamw_check(params, grads, exp_avgs, exp_avg_sqs, step);
}

Tensor squared_norm_cpu(at::TensorList tensors) {
  std::vector<Tensor> rows;
  for (const auto& tensor : tensors) {
    if (!tensor.defined()) continue;
    element_of(tensor, "squared_norm: a tensor");
    rows.push_back(tensor.contiguous());
  }
  const auto pieces = pieces_of(rows);
  std::vector<double> sums(pieces.size());
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const TensorPiece& piece = pieces[static_cast<size_t>(i)];
      const Tensor& tensor = rows[piece.tensor];
      const ConstArray all = const_array(tensor);
      const auto* from = static_cast<const char*>(all.data) + piece.begin * tensor.element_size();
      sums[static_cast<size_t>(i)] = kernels().sum_of_squares({from, all.element}, piece.end - piece.begin);
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  auto result = at::empty({}, at::TensorOptions(at::kDouble));
  *result.mutable_data_ptr<double>() = total;
  return result;
}

Tensor squared_norm_shape(at::TensorList tensors) {
  const auto device = tensors.empty() ? at::Device(at::kMeta) : tensors.front().device();
  return at::empty({}, at::TensorOptions(at::kDouble).device(device));
}

}  // namespace

void adamw_(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
            const AdamWOptions& options) {
  static const auto op = find_operator<AdamWOperator>("titan::adamw_");
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.call(params, grads, exp_avgs, exp_avg_sqs, options.lr, options.beta1, options.beta2, options.eps,
          options.weight_decay, options.step, options.grad_scale);
  // The kernel writes behind autograd's back; a graph that saved an old value must notice.
  for (const auto list : {params, exp_avgs, exp_avg_sqs}) {
    for (const auto& tensor : list) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

Tensor squared_norm(at::TensorList tensors) {
  static const auto op = find_operator<SquaredNormOperator>("titan::squared_norm");
  if (tensors.empty()) return squared_norm_cpu(tensors);
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(tensors);
}

Tensor grad_norm(at::TensorList grads) { return squared_norm(grads).sqrt().to(at::kFloat); }

}  // namespace titan

TORCH_LIBRARY_FRAGMENT(titan, m) {
  m.def(
      "adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, float "
      "lr, "
      "float beta1, float beta2, float eps, float weight_decay, int step, float grad_scale) -> ()");
  m.def("squared_norm(Tensor[] tensors) -> Tensor");
}
TORCH_LIBRARY_IMPL(titan, CPU, m) {
  m.impl("adamw_", titan::adamw_cpu);
  m.impl("squared_norm", titan::squared_norm_cpu);
}
TORCH_LIBRARY_IMPL(titan, Meta, m) {
  m.impl("adamw_", titan::adamw_shape);
  m.impl("squared_norm", titan::squared_norm_shape);
}
