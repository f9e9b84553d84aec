#include "titan/neuron/rt/cost.h"

#include <algorithm>

#include "titan/base/error.h"
#include "titan/neuron/rt/cost_classes.h"
#include "titan/neuron/rt/cost_optimizer.h"
#include "titan/neuron/rt/cost_products.h"

namespace titan::neuron {

namespace {

using Operands = std::span<const TensorShape>;

bool is_floating(DeviceDtype dtype) {
  return dtype == DeviceDtype::float32 || dtype == DeviceDtype::bfloat16 || dtype == DeviceDtype::float16 ||
         dtype == DeviceDtype::float8 || dtype == DeviceDtype::complex64;
}

double bytes_of(Operands tensors) {
  double bytes = 0;
  for (const TensorShape& tensor : tensors) bytes += static_cast<double>(tensor.bytes());
  return bytes;
}

int64_t most_elements(Operands tensors) {
  int64_t most = 0;
  for (const TensorShape& tensor : tensors) most = std::max(most, tensor.numel());
  return most;
}

int64_t sum_of_elements(Operands tensors) {
  int64_t sum = 0;
  for (const TensorShape& tensor : tensors) sum += tensor.numel();
  return sum;
}

/// The widest floating dtype of the largest tensors, else their widest.
DeviceDtype arithmetic_dtype(Operands inputs, Operands outputs) {
  const Operands tensors = inputs.empty() ? outputs : inputs;
  const int64_t most = most_elements(tensors);
  const TensorShape* widest = nullptr;
  const auto rank = [](const TensorShape& x) {
    return std::pair(is_floating(x.dtype), element_bytes(x.dtype));
  };
  for (const TensorShape& tensor : tensors) {
    if (tensor.numel() == most && (widest == nullptr || rank(tensor) > rank(*widest))) widest = &tensor;
  }
  return widest != nullptr ? widest->dtype : DeviceDtype::float32;
}

/// An out variant's last arguments are its results, which it does not read.
Operands inputs_read(std::string_view name, Operands inputs, Operands outputs) {
  const size_t dot = name.find('.');
  const bool out_variant = dot != std::string_view::npos && name.substr(dot).ends_with("out");
  return out_variant && inputs.size() > outputs.size() ? inputs.first(inputs.size() - outputs.size())
                                                       : inputs;
}

double bytes_moved(Traffic traffic, bool in_place, Operands inputs, Operands outputs) {
  const double written = bytes_of(outputs);
  if (traffic == Traffic::written) return written;
  if (inputs.empty()) return written;
  const double first = static_cast<double>(inputs[0].bytes()), others = bytes_of(inputs.subspan(1));
  switch (traffic) {
    case Traffic::first_input:
      return first + written;
    case Traffic::other_inputs:
      return (inputs.size() == 1 ? first : others) + written;
    case Traffic::picked:
      return std::min(first, written) + others + written;
    case Traffic::scattered: {
      if (!in_place || inputs.size() < 2) break;
      return others + static_cast<double>(inputs.back().numel() * element_bytes(inputs[0].dtype));
    }
    case Traffic::whole:
    case Traffic::written:
      break;
  }
  return first + others + written;
}

/// Numbers that ScalarE makes for each row: the reciprocal of its norm, which forward returns last.
double row_factors(std::string_view plain, Operands outputs) {
  const bool returned = !plain.ends_with("_backward") && outputs.size() > 1;
  return returned ? static_cast<double>(outputs.back().numel()) : 0;
}

/// Elements of one pass over what the operator works on.
double pass_elements(OperatorClass operator_class, std::string_view plain, Operands inputs,
                     Operands outputs) {
  if (plain == "titan::squared_norm") return static_cast<double>(sum_of_elements(inputs));
  // Half of the cache repeats the other one's cosines and sines.
  if (plain == "titan::rope_cache") return static_cast<double>(sum_of_elements(outputs) / 2);
  if (operator_class == OperatorClass::elementwise) {
    return static_cast<double>(std::max(most_elements(inputs), sum_of_elements(outputs)));
  }
  return static_cast<double>(std::max(most_elements(inputs), most_elements(outputs)));
}

bool multiplies_matrices(OperatorClass operator_class) {
  return operator_class == OperatorClass::matmul || operator_class == OperatorClass::attention ||
         operator_class == OperatorClass::loss;
}

}  // namespace

int64_t element_bytes(DeviceDtype dtype) {
  switch (dtype) {
    case DeviceDtype::complex64:
      return 8;
    case DeviceDtype::float32:
    case DeviceDtype::int32:
      return 4;
    case DeviceDtype::bfloat16:
    case DeviceDtype::float16:
    case DeviceDtype::int16:
      return 2;
    case DeviceDtype::float8:
    case DeviceDtype::int8:
    case DeviceDtype::boolean:
      return 1;
  }
  check(false, "the dtype is one of the device's");
  return 0;
}

int64_t TensorShape::numel() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

Work work_of(std::string_view name, Operands inputs, Operands outputs) {
  if (plain_name(name) == "titan::adamw") return adamw_work(inputs);
  const std::string_view plain = plain_name(name);
  const OperatorEntry* found = find_operator_entry(name);
  const OperatorEntry entry = found != nullptr ? *found : OperatorEntry{};
  const Operands read = inputs_read(name, inputs, outputs);
  const bool in_place = name.substr(0, name.find('.')) != plain;
  Work work{.operator_class = entry.operator_class,
            .dtype = arithmetic_dtype(read, outputs),
            .bytes = bytes_moved(entry.traffic, in_place, read, outputs)};
  if (multiplies_matrices(entry.operator_class)) {
    const Products products = products_of(name, read, outputs);
    work.dtype = products.dtype;
    work.flops = products.flops;
    work.scalar_elements = products.exponentials;
    return work;
  }
  const ClassPasses passes = passes_of(entry.operator_class);
  const double elements = pass_elements(entry.operator_class, plain, read, outputs);
  work.vector_elements = passes.vector * elements;
  work.scalar_elements = passes.scalar * elements;
  if (entry.operator_class == OperatorClass::normalisation)
    work.scalar_elements = row_factors(plain, outputs);
  return work;
}

}  // namespace titan::neuron
