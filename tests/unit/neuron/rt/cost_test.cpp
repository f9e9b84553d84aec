#include "titan/neuron/rt/cost.h"

#include <doctest/doctest.h>

#include <string_view>
#include <utility>
#include <vector>

// Every number is worked out by hand, as the comment beside it says.

using namespace titan::neuron;

namespace {

constexpr auto kFloat = DeviceDtype::float32, kBfloat = DeviceDtype::bfloat16, kInt = DeviceDtype::int32;

using Tensors = std::vector<TensorShape>;

}  // namespace

TEST_CASE("an element has the device's bytes, and a tensor its elements'") {
  const std::pair<DeviceDtype, int64_t> sizes[] = {
      {kFloat, 4},
      {kBfloat, 2},
      {DeviceDtype::float16, 2},
      {DeviceDtype::float8, 1},
      {kInt, 4},
      {DeviceDtype::int16, 2},
      {DeviceDtype::int8, 1},
      {DeviceDtype::boolean, 1},
      {DeviceDtype::complex64, 8},
  };
  for (const auto& [dtype, bytes] : sizes) CHECK(element_bytes(dtype) == bytes);
  CHECK(TensorShape{kBfloat, {3, 5}}.bytes() == 30);
  CHECK(TensorShape{kFloat, {}}.bytes() == 4);
  CHECK(TensorShape{kFloat, {3, 0}}.numel() == 0);
}

TEST_CASE("overloads, out variants and variants in place share the class of their operator") {
  const std::pair<std::string_view, OperatorClass> classes[] = {
      {"aten::mm", OperatorClass::matmul},
      {"aten::addmm_", OperatorClass::matmul},
      {"aten::add", OperatorClass::elementwise},
      {"aten::add.out", OperatorClass::elementwise},
      {"aten::where.self", OperatorClass::elementwise},
      {"aten::exp", OperatorClass::transcendental},
      {"aten::exp_", OperatorClass::transcendental},
      {"aten::exp.out", OperatorClass::transcendental},
      {"aten::_softmax", OperatorClass::transcendental},
      {"aten::sum.dim_IntList", OperatorClass::reduction},
      {"aten::topk", OperatorClass::reduction},
      {"aten::sort.values_stable", OperatorClass::reduction},
      {"aten::embedding", OperatorClass::gather},
      {"aten::index_put_", OperatorClass::gather},
      {"aten::copy_", OperatorClass::copy},
      {"aten::zero_", OperatorClass::copy},
      {"aten::native_layer_norm", OperatorClass::normalisation},
      {"aten::__and__.Tensor", OperatorClass::elementwise},
      {"titan::adamw_", OperatorClass::optimizer},
      {"titan::squared_norm", OperatorClass::reduction},
      {"titan::linear_cross_entropy", OperatorClass::loss},
  };
  for (const auto& [name, operator_class] : classes) {
    INFO(name);
    CHECK(class_of(name) == operator_class);
  }
}

TEST_CASE("an operator that no table knows is elementwise: read once, written once, one pass") {
  CHECK(class_of("aten::no_such_operator") == OperatorClass::elementwise);
  CHECK(class_of("mine::mm") == OperatorClass::elementwise);
  const Work work = work_of("mine::mm", Tensors{{kFloat, {4, 6}}, {kFloat, {6}}}, Tensors{{kFloat, {4, 6}}});
  CHECK(work.bytes == 96 + 24 + 96);
  CHECK(work.vector_elements == 24);
  CHECK(work.scalar_elements == 0);
  CHECK(work.flops == 0);
}

TEST_CASE("elementwise work passes over every result, or over the largest input") {
  const TensorShape q = {kBfloat, {2, 3, 4, 8}}, k = {kBfloat, {2, 3, 2, 8}}, cache = {kFloat, {1, 3, 16}};
  const Work rope = work_of("titan::rope", Tensors{q, k, cache}, Tensors{q, k});
  CHECK(rope.vector_elements == 192 + 96);
  CHECK(rope.bytes == 2 * (384 + 192) + 192);
  CHECK(rope.dtype == kBfloat);
  CHECK(work_of("titan::row_gradients_", Tensors{{kFloat, {5, 7}}, {kInt, {5}}, {kFloat, {5}}}, {})
            .vector_elements == 35);
  CHECK(work_of("titan::first_keys", Tensors{{kInt, {2, 9}}}, Tensors{{kInt, {2, 9}}}).vector_elements == 18);
}

TEST_CASE("transcendental work passes ScalarE once an element") {
  const TensorShape gate = {kBfloat, {3, 10}};
  const Work swiglu = work_of("titan::swiglu", Tensors{gate, gate}, Tensors{gate});
  CHECK(swiglu.scalar_elements == 30);
  CHECK(swiglu.vector_elements == 0);
  CHECK(swiglu.bytes == 180);
  CHECK(work_of("titan::swiglu_backward", Tensors{gate, gate, gate}, Tensors{gate, gate}).scalar_elements ==
        30);
  // 2 · 9 positions of 4 frequencies have 72 cosines and 72 sines; the cache holds each twice.
  CHECK(work_of("titan::rope_cache", Tensors{{kInt, {2, 9}}, {kFloat, {4}}}, Tensors{{kFloat, {2, 9, 16}}})
            .scalar_elements == 144);
  CHECK(work_of("titan::row_stats_", Tensors{{kFloat, {5, 7}}, {kInt, {5}}}, Tensors{{kFloat, {5, 3}}})
            .scalar_elements == 35);
}

TEST_CASE("a norm passes VectorE twice and makes one number a row") {
  const TensorShape x = {kBfloat, {2, 3, 16}}, weight = {kFloat, {16}}, rstd = {kFloat, {2, 3}};
  const Work norm = work_of("titan::rms_norm", Tensors{x, weight}, Tensors{x, rstd});
  CHECK(norm.vector_elements == 192);
  CHECK(norm.scalar_elements == 6);
  CHECK(norm.dtype == kBfloat);  // the weight does not slow the rows down
  const Work with_add = work_of("titan::add_rms_norm", Tensors{x, x, weight}, Tensors{x, x, rstd});
  CHECK(with_add.vector_elements == 192);
  CHECK(with_add.scalar_elements == 6);
  CHECK(with_add.bytes == 4 * 192 + 64 + 24);
  const Work backward = work_of("titan::rms_norm_backward", Tensors{x, x, weight, rstd}, Tensors{x, weight});
  CHECK(backward.vector_elements == 192);
  CHECK(backward.scalar_elements == 0);
}

TEST_CASE("a reduction passes over its input, a list's over all of it") {
  const Work sum = work_of("aten::sum.dim_IntList", Tensors{{kFloat, {6, 7}}}, Tensors{{kFloat, {6}}});
  CHECK(sum.vector_elements == 42);
  CHECK(sum.bytes == 168 + 24);
  const Work norm =
      work_of("titan::squared_norm", Tensors{{kFloat, {6, 7}}, {kFloat, {8}}}, Tensors{{kFloat, {}}});
  CHECK(norm.vector_elements == 50);
  CHECK(norm.bytes == 204);
}

TEST_CASE("a gather reads no more of a table than it takes, and a scatter leaves the rest alone") {
  const TensorShape table = {kBfloat, {1000, 8}}, ids = {kInt, {3}}, rows = {kBfloat, {3, 8}};
  const Work embedding = work_of("titan::embedding", Tensors{table, ids}, Tensors{rows});
  CHECK(embedding.bytes == 48 + 12 + 48);
  CHECK(embedding.vector_elements == 0);
  CHECK(work_of("titan::embedding_backward", Tensors{rows, ids}, Tensors{table}).bytes == 48 + 12 + 16000);
  CHECK(work_of("aten::index_put_", Tensors{table, ids, rows}, Tensors{table}).bytes == 12 + 48 + 48);
  CHECK(work_of("aten::index_put", Tensors{table, ids, rows}, Tensors{table}).bytes == 2 * 16000 + 12 + 48);
}

TEST_CASE("what is only written is not read") {
  const TensorShape big = {kFloat, {10, 10}}, row = {kFloat, {10}}, one = {kFloat, {}};
  CHECK(work_of("aten::fill_.Scalar", Tensors{big}, Tensors{big}).bytes == 400);
  CHECK(work_of("aten::zero_", Tensors{big}, Tensors{big}).bytes == 400);
  CHECK(work_of("aten::copy_", Tensors{big, row}, Tensors{big}).bytes == 440);
  CHECK(work_of("aten::copy_", Tensors{row}, Tensors{big}).bytes == 440);
  CHECK(work_of("aten::_copy_from", Tensors{row, big}, Tensors{big}).bytes == 440);
  CHECK(work_of("aten::cat", Tensors{row, row}, Tensors{{kFloat, {20}}}).bytes == 160);
  CHECK(work_of("aten::add.out", Tensors{big, one, big}, Tensors{big}).bytes == 804);
  CHECK(work_of("aten::add_.Tensor", Tensors{big, one}, Tensors{big}).bytes == 804);
}

TEST_CASE("AdamW reads four tensors and writes three of each parameter that has a gradient") {
  const TensorShape matrix = {kBfloat, {4, 5}}, vector = {kBfloat, {7}}, frozen = {kBfloat, {9}};
  const auto wide = [](TensorShape shape) { return TensorShape{kFloat, shape.sizes}; };
  const Work all = work_of(
      "titan::adamw_",
      Tensors{matrix, vector, matrix, vector, wide(matrix), wide(vector), wide(matrix), wide(vector)}, {});
  CHECK(all.operator_class == OperatorClass::optimizer);
  CHECK(all.bytes == 27 * (2 + 2 * (2 + 4 + 4)));
  CHECK(all.vector_elements == 27 * 6);
  CHECK(all.scalar_elements == 27);
  CHECK(all.dtype == kFloat);
  const Work some =
      work_of("titan::adamw_",
              Tensors{frozen, vector, vector, wide(frozen), wide(vector), wide(frozen), wide(vector)}, {});
  CHECK(some.vector_elements == 7 * 6);
  CHECK(some.bytes == 7 * (2 + 2 * (2 + 4 + 4)));
  // Three parameters that look alike are not taken for four without gradients.
  CHECK(work_of("titan::adamw_", Tensors(12, matrix), {}).vector_elements == 3 * 20 * 6);
  CHECK(work_of("titan::adamw_", {}, {}).bytes == 0);
}

TEST_CASE("the arithmetic is of the widest floating dtype among the largest inputs") {
  const auto dtype = [](const Tensors& inputs) { return work_of("aten::add", inputs, {}).dtype; };
  CHECK(dtype({{kBfloat, {8}}, {kFloat, {8}}}) == kFloat);
  CHECK(dtype({{kBfloat, {8}}, {kInt, {8}}}) == kBfloat);
  CHECK(dtype({{kBfloat, {8}}, {kFloat, {}}}) == kBfloat);
  CHECK(dtype({{DeviceDtype::boolean, {8}}, {DeviceDtype::int16, {8}}}) == DeviceDtype::int16);
  CHECK(work_of("aten::arange", {}, Tensors{{kInt, {8}}}).dtype == kInt);
}
