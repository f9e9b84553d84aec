#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "titan/neuron/rt/cost.h"

// Every number is worked out by hand, as the comment beside it says.

using namespace titan::neuron;

namespace {

constexpr auto kFloat = DeviceDtype::float32, kBfloat = DeviceDtype::bfloat16, kInt = DeviceDtype::int32;

using Sizes = std::vector<int64_t>;

Work products(std::string_view name, const std::vector<Sizes>& inputs, const std::vector<Sizes>& outputs,
              DeviceDtype dtype = kFloat) {
  std::vector<TensorShape> in, out;
  for (const Sizes& sizes : inputs) in.push_back({dtype, sizes});
  for (const Sizes& sizes : outputs) out.push_back({dtype, sizes});
  return work_of(name, in, out);
}

double flops(std::string_view name, const std::vector<Sizes>& inputs, const std::vector<Sizes>& outputs) {
  return products(name, inputs, outputs).flops;
}

}  // namespace

TEST_CASE("a matrix product counts a multiplication and an addition for each pair, odd sizes too") {
  CHECK(flops("aten::mm", {{7, 13}, {13, 5}}, {{7, 5}}) == 910);                 // 2 · 7 · 13 · 5
  CHECK(flops("aten::mm.out", {{7, 13}, {13, 5}, {7, 5}}, {{7, 5}}) == 910);     // the result is no operand
  CHECK(flops("aten::bmm", {{3, 7, 13}, {3, 13, 5}}, {{3, 7, 5}}) == 2730);      // 3 · 910
  CHECK(flops("aten::matmul", {{7, 13}, {3, 13, 5}}, {{3, 7, 5}}) == 2730);      // the left one is repeated
  CHECK(flops("aten::linear", {{2, 3, 13}, {5, 13}, {5}}, {{2, 3, 5}}) == 780);  // 2 · 6 · 13 · 5
  CHECK(flops("aten::mv", {{7, 13}, {13}}, {{7}}) == 182);                       // 2 · 7 · 13
  CHECK(flops("aten::dot", {{13}, {13}}, {{}}) == 26);
}

TEST_CASE("what a product is added to is no operand of it") {
  CHECK(flops("aten::addmm", {{5}, {7, 13}, {13, 5}}, {{7, 5}}) == 910);
  CHECK(flops("aten::addmm_", {{7, 5}, {7, 13}, {13, 5}}, {{7, 5}}) == 910);
  CHECK(flops("aten::baddbmm", {{3, 7, 5}, {3, 7, 13}, {3, 13, 5}}, {{3, 7, 5}}) == 2730);
  CHECK(flops("aten::addbmm", {{7, 5}, {3, 7, 13}, {3, 13, 5}}, {{7, 5}}) == 2730);  // summed over the batch
}

TEST_CASE("a linear layer's backward is a product for each gradient that is asked for") {
  CHECK(flops("titan::linear", {{2, 3, 13}, {5, 13}}, {{2, 3, 5}}) == 780);
  const std::vector<Sizes> inputs = {{2, 3, 5}, {2, 3, 13}, {5, 13}};
  CHECK(flops("titan::linear_backward", inputs, {{2, 3, 13}, {5, 13}}) == 1560);
  CHECK(flops("titan::linear_backward", inputs, {{5, 13}}) == 780);
  CHECK(flops("titan::linear_backward", inputs, {}) == 0);
}

TEST_CASE(
    "attention multiplies what a causal mask joins: grouped heads, keys of two rows before the queries") {
  // B 2, T 3, S 6 (as many keys again before the queries), N 4 heads on K 2, H 8. A head joins 4 + 5 + 6 = 15
  // pairs, 2 · 4 heads 120; two products of 2 · 8 operations a pair.
  const Sizes q = {2, 3, 4, 8}, k = {2, 6, 2, 8}, first_key = {2, 3}, logsumexp = {2, 4, 3};
  const Work forward = products("titan::attention", {q, k, k, first_key}, {q, logsumexp});
  CHECK(forward.operator_class == OperatorClass::attention);
  CHECK(forward.flops == 120 * 16 * 2);
  CHECK(forward.scalar_elements == 120);
  CHECK(forward.vector_elements == 0);

  const std::vector<Sizes> inputs = {q, q, k, k, first_key, q, logsumexp};
  CHECK(flops("titan::attention_backward", inputs, {q, k, k}) == 120 * 16 * 5);
  CHECK(flops("titan::attention_backward", inputs, {k, k}) == 120 * 16 * 4);  // scores, dP, dK, dV
  CHECK(flops("titan::attention_backward", inputs, {k}) == 120 * 16 * 2);     // dV: scores, dV
  CHECK(products("titan::attention_backward", inputs, {q, k, k}).scalar_elements == 120);
}

TEST_CASE("attention over as many keys as queries counts half the square and its diagonal") {
  const Sizes q = {1, 5, 3, 2}, k = {1, 5, 1, 2};
  CHECK(flops("titan::attention", {q, k, k}, {q}) == 3 * 15 * 4 * 2);           // 15 = 5 · 6 / 2
  CHECK(flops("titan::attention", {{1, 0, 3, 2}, k, k}, {{1, 0, 3, 2}}) == 0);  // no queries
}

TEST_CASE("aten's attention has heads before tokens and its mask begins at the first key") {
  const auto of = [](const Sizes& q, const Sizes& k) {
    return flops("aten::_scaled_dot_product_flash_attention_for_cpu", {q, k, k}, {q});
  };
  CHECK(of({2, 4, 3, 8}, {2, 4, 3, 8}) == 2 * 4 * 6 * 16 * 2);            // 1 + 2 + 3
  CHECK(of({1, 1, 3, 8}, {1, 1, 7, 8}) == 6 * 16 * 2);                    // more keys: 1 + 2 + 3
  CHECK(of({1, 1, 5, 8}, {1, 1, 2, 8}) == (1 + 2 + 2 + 2 + 2) * 16 * 2);  // fewer keys
  const Sizes q = {1, 1, 3, 8};
  CHECK(flops("aten::_scaled_dot_product_flash_attention_for_cpu_backward", {q, q, q, q, q, {1, 1, 3}},
              {q, q, q}) == 6 * 16 * 5);
}

TEST_CASE("the loss multiplies once for the logits and once for each gradient, whatever its chunks") {
  // 6 rows of 7 against a vocabulary of 11: 2 · 6 · 7 · 11 = 924. Rows at a time are no argument here.
  const Sizes x = {2, 3, 7}, weight = {11, 7}, labels = {2, 3};
  const Work forward = products("titan::linear_cross_entropy", {x, weight, labels}, {{}});
  CHECK(forward.operator_class == OperatorClass::loss);
  CHECK(forward.flops == 924);
  CHECK(forward.scalar_elements == 66);
  CHECK(flops("titan::linear_cross_entropy", {x, weight, labels}, {{}, weight}) == 1848);
  CHECK(flops("titan::linear_cross_entropy", {x, weight, labels}, {{}, x, weight}) == 2772);
  double in_chunks = 0;
  for (const int64_t rows : {4, 2}) {
    in_chunks += flops("titan::linear_cross_entropy", {{rows, 7}, weight, {rows}}, {{}, {rows, 7}, weight});
  }
  CHECK(in_chunks == 2772);
}

TEST_CASE(
    "a product is of its left operand's dtype, even where a weight, a gradient or a statistic is wider") {
  const auto dtype = [](std::string_view name, const std::vector<TensorShape>& inputs) {
    return work_of(name, inputs, std::vector<TensorShape>{{kBfloat, {4, 16}}}).dtype;
  };
  const TensorShape x = {kBfloat, {4, 8}}, grad = {kFloat, {4, 16}}, weight = {kFloat, {16, 8}};
  CHECK(dtype("titan::linear", {x, weight}) == kBfloat);
  CHECK(dtype("titan::linear_backward", {grad, x, weight}) == kBfloat);
  CHECK(dtype("titan::linear_cross_entropy", {x, weight, {kInt, {4}}}) == kBfloat);
  const TensorShape q = {kBfloat, {1, 3, 2, 8}}, first = {kInt, {1, 3}}, statistic = {kFloat, {1, 2, 3}};
  CHECK(dtype("titan::attention_backward", {{kFloat, q.sizes}, q, q, q, first, q, statistic}) == kBfloat);
}
