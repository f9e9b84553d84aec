#include <doctest/doctest.h>

#include "lanes.h"

using namespace titan::nki;
using namespace titan::nki::lanes;

namespace {

struct ReduceCase {
  Operation op;
  float initial;
  std::function<float(float, float)> function;
};

const std::vector<ReduceCase>& reduce_cases() {
  static const std::vector<ReduceCase> cases = {
      {Operation::add, 0, [](float a, float b) { return a + b; }},
      {Operation::multiply, 1, [](float a, float b) { return a * b; }},
      {Operation::maximum, -1e30F, [](float a, float b) { return std::max(a, b); }},
      {Operation::minimum, 1e30F, [](float a, float b) { return std::min(a, b); }},
      {Operation::logical_and, 1, [](float a, float b) { return a != 0 && b != 0 ? 1.0F : 0.0F; }},
      {Operation::logical_or, 0, [](float a, float b) { return a != 0 || b != 0 ? 1.0F : 0.0F; }},
      {Operation::logical_xor, 0, [](float a, float b) { return (a != 0) != (b != 0) ? 1.0F : 0.0F; }},
  };
  return cases;
}

}  // namespace

TEST_CASE("tensor_reduce combines the last dimensions in order, whatever the layout") {
  on_core([] {
    for (const Layout& layout : layouts()) {
      for (const ReduceCase& each : reduce_cases()) {
        CAPTURE(layout.name);
        CAPTURE(operation_name(each.op));
        const Tensor x = drawn(layout.make(Dtype::float32, Buffer::sbuf), 1);
        const Tensor out = tile({layout.partitions, 1});
        std::vector<int64_t> axes;
        for (int64_t i = 1; i < x.ndim(); ++i) axes.push_back(i);
        nisa::tensor_reduce(out, each.op, x, axes);
        const Floats in = values(x);
        Floats expected(static_cast<size_t>(layout.partitions), each.initial);
        for (size_t i = 0; i < in.size(); ++i) expected[i / 15] = each.function(expected[i / 15], in[i]);
        CHECK(values(out) == expected);
      }
    }
  });
}

TEST_CASE("tensor_reduce leaves the dimensions before its axes, negates and rounds") {
  on_core([] {
    const Tensor x = drawn(tile({5, 3, 7}, Dtype::bfloat16), 2);
    const Tensor out = tile({5, 3}, Dtype::bfloat16), kept = tile({5, 3, 1}, Dtype::float32);
    nisa::tensor_reduce(out, Operation::add, x, {-1}, {.negate = true});
    nisa::tensor_reduce(kept, Operation::subtract, x, {2}, {.keepdims = true});
    const Floats in = values(x);
    Floats sums(15), differences(15);
    for (size_t i = 0; i < in.size(); ++i) sums[i / 7] += in[i];
    for (size_t i = 0; i < in.size(); ++i)
      differences[i / 7] = i % 7 == 0 ? in[i] : differences[i / 7] - in[i];
    for (float& sum : sums) sum = rounded(-sum, Dtype::bfloat16);
    CHECK(values(out) == sums);
    CHECK(values(kept) == differences);
    const Tensor all_of_it = tile({5, 1});
    nisa::tensor_reduce(all_of_it, Operation::maximum, x, {1, 2});
    CHECK(values(all_of_it)[4] == *std::max_element(in.begin() + 84, in.end()));
  });
}

TEST_CASE("tensor_reduce of one element by a logical operation says whether it is zero") {
  on_core([] {
    const Tensor x = tile_of({3, 1}, {2.5F, 0, -1}), out = tile({3, 1});
    for (const Operation op : {Operation::logical_and, Operation::logical_or, Operation::logical_xor}) {
      CAPTURE(operation_name(op));
      nisa::tensor_reduce(out, op, x, {1});
      CHECK(values(out) == Floats{1, 0, 1});
    }
  });
}

TEST_CASE("tensor_reduce combines bits") {
  on_core([] {
    const Tensor x = tile_of({2, 3}, {1, 2, 4, 8, 8, 1}, Dtype::int32), out = tile({2, 1}, Dtype::int32);
    nisa::tensor_reduce(out, Operation::bitwise_or, x, {1});
    CHECK(values(out) == Floats{7, 9});
    nisa::tensor_reduce(out, Operation::bitwise_xor, x, {1});
    CHECK(values(out) == Floats{7, 1});
  });
}

TEST_CASE("tensor_partition_reduce combines partitions in order") {
  on_core([] {
    const Tensor x = drawn(tile({37, 9}, Dtype::bfloat16), 3), out = tile({1, 9});
    const Floats in = values(x);
    Floats sums(in.begin(), in.begin() + 9), most = sums;
    for (size_t i = 9; i < in.size(); ++i) {
      sums[i % 9] += in[i];
      most[i % 9] = std::max(most[i % 9], in[i]);
    }
    nisa::tensor_partition_reduce(out, Operation::add, x);
    CHECK(values(out) == sums);
    nisa::tensor_partition_reduce(out, Operation::maximum, x);
    CHECK(values(out) == most);
    nisa::tensor_partition_reduce(out, Operation::average, x);
    for (float& sum : sums) sum /= 37;
    CHECK(values(out) == sums);
    const Tensor bits = tile_of({3, 2}, {1, 6, 2, 4, 8, 12}, Dtype::uint8), both = tile({1, 2}, Dtype::uint8);
    nisa::tensor_partition_reduce(both, Operation::bitwise_or, bits);
    CHECK(values(both) == Floats{11, 14});
    nisa::tensor_partition_reduce(both, Operation::bitwise_and, bits);
    CHECK(values(both) == Floats{0, 4});
  });
}
