#include "titan/ops/gradcheck.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/ops/autograd.h"

namespace titan {
namespace {

using at::Tensor;

bool is_checked(const Tensor& input) { return input.defined() && input.requires_grad(); }

void check_inputs(const std::vector<Tensor>& inputs) {
  if (std::ranges::none_of(inputs, is_checked)) {
    throw ValueError(
        "gradcheck: none of the {} input(s) requires a gradient: call .requires_grad_() on those to check",
        inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_checked(inputs[i])) continue;
    const auto dtype = inputs[i].scalar_type();
    if (dtype != at::kDouble && dtype != at::kFloat) {
      throw ValueError("gradcheck: input {} is {}, too coarse for differences: give it in float64 or float32",
                       i, c10::toString(dtype));
    }
  }
}

void check_options(const GradcheckOptions& options) {
  const std::pair<const char*, double> numbers[] = {
      {"eps", options.eps}, {"atol", options.atol}, {"rtol", options.rtol}};
  for (const auto& [name, value] : numbers) {
    if (!(value >= 0) || !std::isfinite(value))
      throw ValueError("gradcheck: {} must be a positive number (0: the default), got {}", name, value);
  }
  if (options.max_elements < 1)
    throw ValueError("gradcheck: max_elements must be 1 or more, got {}", options.max_elements);
}

/// Something to take a gradient of.
void check_results(const std::vector<Tensor>& results) {
  if (results.empty()) throw ValueError("gradcheck: the function returns nothing");
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) throw ValueError("gradcheck: result {} is an undefined tensor", i);
  }
  if (std::ranges::any_of(results, &Tensor::requires_grad)) return;
  throw ValueError(
      "gradcheck: nothing was recorded for a backward: none of the {} result(s) requires a gradient, though "
      "inputs do (did the function detach them, or work on their data?)",
      results.size());
}

GradcheckOptions with_defaults(GradcheckOptions options, const std::vector<Tensor>& inputs) {
  const bool is_double = std::ranges::all_of(
      inputs, [](const Tensor& input) { return !is_checked(input) || input.scalar_type() == at::kDouble; });
  if (options.eps == 0) options.eps = is_double ? 1e-6 : 1e-2;
  if (options.atol == 0) options.atol = is_double ? 1e-5 : 1e-2;
  if (options.rtol == 0) options.rtol = is_double ? 1e-3 : 1e-2;
  return options;
}

/// Numbers in [-1, 1) of float64 on the host, the same in every run.
Tensor fixed_weights(const Tensor& like, unsigned seed) {
  Tensor weights = at::empty(like.sizes(), at::TensorOptions(at::kDouble).device(at::kCPU));
  std::mt19937 generator(seed);
  constexpr double kRange = 4294967296.0;
  for (int64_t i = 0; i < weights.numel(); ++i) {
    weights.mutable_data_ptr<double>()[i] = static_cast<double>(generator()) / kRange * 2 - 1;
  }
  return weights;
}

/// The function with its inputs as leaves and its results weighted to one number.
class WeightedFunction {
 public:
  WeightedFunction(const GradcheckFunction& fn, const std::vector<Tensor>& inputs) : fn_(fn) {
    for (const Tensor& input : inputs) {
      leaves_.push_back(input.defined() ? input.detach().clone(at::MemoryFormat::Contiguous) : input);
      if (is_checked(input)) leaves_.back().requires_grad_();
    }
  }

  /// The gradients by the backward on the host in float64, zeros where there is none.
  std::vector<Tensor> gradients() {
    for (Tensor& leaf : leaves_) {
      if (is_checked(leaf)) leaf.mutable_grad() = Tensor();
    }
    torch::autograd::variable_list roots, weights;
    const at::AutoGradMode record(true);
    const std::vector<Tensor> results = fn_(leaves_);
    check_results(results);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].requires_grad()) continue;
      roots.push_back(results[i]);
      weights.push_back(fixed_weights(results[i], static_cast<unsigned>(i)).to(results[i].options()));
    }
    torch::autograd::backward(roots, weights);
    std::vector<Tensor> grads;
    for (const Tensor& leaf : leaves_) {
      if (!is_checked(leaf)) {
        grads.emplace_back();
      } else {
        const Tensor grad = leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
        grads.push_back(grad.detach().to(at::TensorOptions(at::kDouble).device(at::kCPU)).contiguous());
      }
    }
    return grads;
  }

  /// The difference quotient for one element.
  double quotient(size_t input, int64_t element, double eps) {
    const NoGrad guard;
    const Tensor place = leaves_[input].detach().view({-1}).narrow(0, element, 1);
    const double value = place.item<double>(), step = eps * std::max(1.0, std::abs(value));
    // The steps that the dtype really makes.
    place.fill_(value + step);
    const double above = place.item<double>(), value_above = weighted();
    place.fill_(value - step);
    const double below = place.item<double>(), value_below = weighted();
    place.fill_(value);
    if (above == below) {
      throw ValueError("gradcheck: a step of {} from {} is lost in {}: give a larger eps", step, value,
                       c10::toString(place.scalar_type()));
    }
    return (value_above - value_below) / (above - below);
  }

 private:
  double weighted() {
    const std::vector<Tensor> results = fn_(leaves_);
    double sum = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].is_floating_point()) continue;
      const Tensor values = results[i].detach().to(at::TensorOptions(at::kDouble).device(at::kCPU));
      // As the backward sees them: in the result's dtype.
      const Tensor weights = fixed_weights(results[i], static_cast<unsigned>(i)).to(results[i].scalar_type());
      sum += values.mul(weights.to(at::kDouble)).sum().item<double>();
    }
    return sum;
  }

  const GradcheckFunction& fn_;
  std::vector<Tensor> leaves_;
};

std::vector<int64_t> place_of(int64_t element, at::IntArrayRef sizes) {
  std::vector<int64_t> place(sizes.size());
  for (size_t dim = sizes.size(); dim-- > 0;) {
    place[dim] = element % sizes[dim];
    element /= sizes[dim];
  }
  return place;
}

void check_reentrant(const std::vector<Tensor>& first, const std::vector<Tensor>& second) {
  for (size_t i = 0; i < first.size(); ++i) {
    if (!first[i].defined() || first[i].equal(second[i])) continue;
    if (first[i].isnan().equal(second[i].isnan()) && first[i].nan_to_num().equal(second[i].nan_to_num()))
      continue;
    throw ValueError(
        "gradcheck: two backwards give different gradients for input {}: the function or its backward is "
        "not deterministic",
        i);
  }
}

}  // namespace

std::string GradcheckResult::describe() const {
  if (input < 0) return "no gradient was compared";
  std::vector<std::string> places;
  for (const int64_t index : element) places.push_back(std::to_string(index));
  return format("input {} at [{}]: the backward gives {}, differences give {} (allowed difference {})", input,
                join(places, ", "), analytical, numerical, allowed);
}

GradcheckResult gradcheck(const GradcheckFunction& fn, const std::vector<Tensor>& inputs,
                          GradcheckOptions given) {
  check_inputs(inputs);
  check_options(given);
  const GradcheckOptions options = with_defaults(given, inputs);
  WeightedFunction function(fn, inputs);
  const std::vector<Tensor> grads = function.gradients();
  check_reentrant(grads, function.gradients());

  GradcheckResult worst;
  double worst_excess = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!grads[i].defined() || grads[i].numel() == 0) continue;
    const int64_t count = std::min(inputs[i].numel(), options.max_elements);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t element = k * inputs[i].numel() / count;
      const double numerical = function.quotient(i, element, options.eps);
      const double analytical = grads[i].const_data_ptr<double>()[element];
      const double allowed = options.atol + options.rtol * std::abs(numerical);
      const double difference = std::abs(analytical - numerical);
      const double excess =
          std::isfinite(difference) ? difference / allowed : std::numeric_limits<double>::infinity();
      if (excess <= worst_excess) continue;
      worst_excess = excess;
      worst = {.passed = excess <= 1,
               .input = static_cast<int64_t>(i),
               .element = place_of(element, inputs[i].sizes()),
               .analytical = analytical,
               .numerical = numerical,
               .max_difference = difference,
               .allowed = allowed};
    }
  }
  if (!worst.passed && options.raise_exception) throw ValueError("gradcheck: {}", worst.describe());
  return worst;
}

GradcheckResult gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                          const std::vector<Tensor>& inputs, GradcheckOptions options) {
  const GradcheckFunction listed = [&fn](const std::vector<Tensor>& values) {
    return std::vector<Tensor>{fn(values)};
  };
  return gradcheck(listed, inputs, options);
}

}  // namespace titan
