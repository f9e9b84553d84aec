#include "titan/neuron/rt/cost_products.h"

#include <algorithm>

#include "titan/base/error.h"
#include "titan/neuron/rt/cost_classes.h"

// B batch, T queries, S keys, N heads, H head size, V vocabulary, D width.

namespace titan::neuron {

namespace {

using Shapes = std::span<const TensorShape>;

double as_double(int64_t value) { return static_cast<double>(value); }

const TensorShape& shape_at(Shapes shapes, size_t index) {
  check(index < shapes.size(), "a matrix product has its operands");
  return shapes[index];
}

int64_t size_at(const TensorShape& shape, size_t from_end) {
  check(from_end < shape.sizes.size(), "an operand has its axes");
  return shape.sizes[shape.sizes.size() - 1 - from_end];
}

/// Every element of the results is a sum over the last axis of the left operand.
Products product_into(Shapes outputs, const TensorShape& left) {
  double results = 0;
  for (const TensorShape& output : outputs) results += as_double(output.numel());
  return {.dtype = left.dtype, .flops = 2 * results * as_double(size_at(left, 0))};
}

/// [B, M, K] by [B, K, N], summed over B.
Products summed_batch_product(const TensorShape& left, const TensorShape& right) {
  return {.dtype = left.dtype, .flops = 2 * as_double(left.numel()) * as_double(size_at(right, 0))};
}

/// grad [..., O], x [..., I], weight [O, I]: one product a gradient.
Products linear_gradients(Shapes inputs, Shapes outputs) {
  const TensorShape& x = shape_at(inputs, 1);
  return {.dtype = x.dtype,
          .flops = 2 * as_double(shape_at(inputs, 0).numel()) * as_double(size_at(x, 0)) *
                   as_double(static_cast<int64_t>(outputs.size()))};
}

/// x [..., D], weight [V, D] -> loss and gradients: the logits and one product a gradient. Rows at a time
/// change nothing.
Products loss_products(Shapes inputs, Shapes outputs) {
  const TensorShape& x = shape_at(inputs, 0);
  const double logits =
      as_double(x.numel() / std::max<int64_t>(1, size_at(x, 0))) * as_double(size_at(shape_at(inputs, 1), 1));
  return {.dtype = x.dtype,
          .flops = 2 * logits * as_double(size_at(x, 0)) * as_double(static_cast<int64_t>(outputs.size())),
          .exponentials = logits};
}

/// Queries and keys that a causal mask joins; the first query sees `first` keys.
double causal_pairs(int64_t queries, int64_t keys, int64_t first) {
  const int64_t growing = std::clamp<int64_t>(keys - first + 1, 0, queries);
  return as_double(growing) * as_double(first) + as_double(growing) * as_double(growing - 1) / 2 +
         as_double(queries - growing) * as_double(keys);
}

/// Forward the scores and their product with the values. Backward the scores again, and dV = P' dO,
/// dP = dO V', dQ = dS K, dK = dS' Q: of two gradients whichever four, of one two at least.
double attention_products(bool backward, size_t gradients) {
  if (!backward) return 2;
  constexpr double kOfGradients[] = {0, 2, 4, 5};
  return kOfGradients[std::min<size_t>(gradients, 3)];
}

Products attention_products_of(std::string_view name, Shapes inputs, Shapes outputs) {
  const bool backward = name.ends_with("_backward"), titans = name.starts_with("titan::");
  const TensorShape &q = shape_at(inputs, backward ? 1 : 0), &k = shape_at(inputs, backward ? 2 : 1);
  // titan has [B, T, N, H], aten [B, N, T, H].
  const int64_t queries = size_at(q, titans ? 2 : 1), keys = size_at(k, titans ? 2 : 1);
  if (q.numel() == 0) return {.dtype = q.dtype};
  const double heads = as_double(q.numel() / queries / size_at(q, 0));
  const double head_size = as_double(std::min(size_at(q, 0), size_at(shape_at(inputs, backward ? 3 : 2), 0)));
  const double pairs = heads * causal_pairs(queries, keys, titans ? keys - queries + 1 : 1);
  return {.dtype = q.dtype,
          .flops = 2 * pairs * head_size * attention_products(backward, outputs.size()),
          .exponentials = pairs};
}

/// Where the left operand is: behind what the product is added to.
size_t left_operand(std::string_view name) {
  constexpr std::string_view kAdded[] = {"aten::addmm", "aten::baddbmm", "aten::addbmm", "aten::addmv",
                                         "aten::_addmm_activation"};
  return std::ranges::find(kAdded, name) != std::end(kAdded) ? 1 : 0;
}

}  // namespace

Products products_of(std::string_view full_name, Shapes inputs, Shapes outputs) {
  const std::string_view name = plain_name(full_name);
  const OperatorClass operator_class = class_of(name);
  if (operator_class == OperatorClass::attention) return attention_products_of(name, inputs, outputs);
  if (operator_class == OperatorClass::loss) return loss_products(inputs, outputs);
  check(operator_class == OperatorClass::matmul, "the operator multiplies matrices");
  if (name == "titan::linear_backward") return linear_gradients(inputs, outputs);
  const TensorShape& left = shape_at(inputs, left_operand(name));
  if (name == "aten::addbmm") return summed_batch_product(left, shape_at(inputs, 2));
  return product_into(outputs, left);
}

}  // namespace titan::neuron
