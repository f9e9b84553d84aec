#include "titan/neuron/rt/cost_optimizer.h"

#include <algorithm>

#include "titan/neuron/rt/cost_classes.h"

namespace titan::neuron {

namespace {

using Tensors = std::span<const TensorShape>;

bool same_sizes(const TensorShape& a, const TensorShape& b) { return a.sizes == b.sizes; }

/// Whether `inputs` can be `count` parameters, some gradients, and two moments of each parameter.
bool begins_with_parameters(Tensors inputs, size_t count) {
  const Tensors params = inputs.first(count), moments = inputs.last(2 * count);
  return std::ranges::equal(params, moments.first(count), same_sizes) &&
         std::ranges::equal(params, moments.last(count), same_sizes);
}

/// How many parameters the four lists begin with.
size_t count_of_parameters(Tensors inputs) {
  const size_t quarter = inputs.size() / 4;
  if (inputs.size() % 4 == 0 && begins_with_parameters(inputs, quarter)) return quarter;
  for (size_t count = inputs.size() / 3; count > quarter; --count) {
    if (begins_with_parameters(inputs, count)) return count;
  }
  return 0;
}

}  // namespace

Work adamw_work(Tensors inputs) {
  const size_t count = count_of_parameters(inputs);
  const Tensors grads = inputs.subspan(count, inputs.size() - 3 * count), moments = inputs.last(2 * count);
  Work work{.operator_class = OperatorClass::optimizer};
  double elements = 0;
  size_t index = 0;
  for (const TensorShape& grad : grads) {
    while (index < count && !same_sizes(inputs[index], grad)) ++index;
    if (index == count) break;
    const TensorShape &param = inputs[index], &average = moments[index], &square = moments[count + index];
    work.bytes += static_cast<double>(grad.bytes() + 2 * (param.bytes() + average.bytes() + square.bytes()));
    elements += static_cast<double>(grad.numel());
    work.dtype = element_bytes(average.dtype) < element_bytes(param.dtype) ? param.dtype : average.dtype;
    ++index;
  }
  const ClassPasses passes = passes_of(work.operator_class);
  work.vector_elements = passes.vector * elements;
  work.scalar_elements = passes.scalar * elements;
  return work;
}

}  // namespace titan::neuron
