// Reductions that go on from one instruction to the next.
#include <doctest/doctest.h>

#include <limits>

#include "lanes.h"

using namespace titan::nki;
using namespace titan::nki::lanes;

namespace {

using nisa::reduce_cmd;

const Floats kFirst = {1, 2, 3, 4, 5, 6}, kSecond = {10, 20, 30, 40, 50, 60};

/// dst = data; `command` adds it up.
void sum_up(const Tensor& data, reduce_cmd command, Tensor result = {}) {
  nisa::activation(tile(data.shape()), nl::copy, data,
                   {.reduce_op = nl::add, .reduce_res = std::move(result), .reduce_cmd = command});
}

void take(const Tensor& data, Operation op, reduce_cmd command, Tensor result = {},
          ScalarOperand init = ScalarOperand()) {
  nisa::tensor_scalar_reduce(tile(data.shape()), data, nl::add, 0.0, op, std::move(result),
                             {.reduce_cmd = command, .reduce_init = std::move(init)});
}

/// The rule that a kernel breaks.
std::string rule_of(const std::function<void()>& body) {
  try {
    on_core(body);
  } catch (const KernelError& error) {
    return error.rule;
  }
  return "";
}

}  // namespace

TEST_CASE("ScalarE's sums go on over instructions, partition by partition") {
  on_core([] {
    const Tensor first = tile_of({2, 3}, kFirst), second = tile_of({2, 3}, kSecond), result = tile({2, 1});
    sum_up(first, reduce_cmd::reset_reduce);
    sum_up(second, reduce_cmd::reduce);
    sum_up(first, reduce_cmd::reduce, result);
    CHECK(values(result) == Floats{6 + 60 + 6, 15 + 150 + 15});
    sum_up(second, reduce_cmd::reset_reduce, result);
    CHECK(values(result) == Floats{60, 150});
    sum_up(second, reduce_cmd::reset, result);
    CHECK(values(result) == Floats{0, 0});
    sum_up(first, reduce_cmd::reduce, result);
    CHECK(values(result) == Floats{6, 15});
  });
}

TEST_CASE("what does not reduce leaves the sums alone, and a sum is that of dst before its rounding") {
  on_core([] {
    const Tensor x = tile_of({1, 2}, {1, 1.0F / 512}), result = tile({1, 1});
    sum_up(x, reduce_cmd::reset_reduce);
    nisa::activation(tile({1, 2}), nl::square, x);
    nisa::activation_reduce(tile({1, 2}, Dtype::bfloat16), nl::copy, x, nl::add, result, {.scale = 3.0});
    CHECK(values(result) == Floats{3 + 3.0F / 512});
    nisa::activation(tile({1, 2}, Dtype::bfloat16), nl::copy, x,
                     {.reduce_op = nl::add, .reduce_res = result, .reduce_cmd = reduce_cmd::reduce});
    CHECK(values(result) == Floats{4 + 4.0F / 512});
  });
}

TEST_CASE("an accumulator is a partition's of the chip, whichever tensor is computed") {
  on_core([] {
    const Tensor both = tile_of({64, 1}, Floats(64, 1)), upper = both(ds(32, 32)), result = tile({64, 1});
    sum_up(both, reduce_cmd::reset_reduce);
    nisa::activation(upper, nl::copy, upper, {.reduce_op = nl::add, .reduce_cmd = reduce_cmd::reduce});
    sum_up(both, reduce_cmd::reduce, result);
    CHECK(values(result)[31] == 2);
    CHECK(values(result)[32] == 3);
  });
}

TEST_CASE("VectorE's accumulators reduce by their operation, and are not ScalarE's") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  on_core([] {
    const Tensor first = tile_of({2, 3}, kFirst), second = tile_of({2, 3}, kSecond), result = tile({2, 1});
    take(second, nl::maximum, reduce_cmd::reset_reduce);
    sum_up(first, reduce_cmd::reset_reduce);
    take(first, nl::maximum, reduce_cmd::reduce, result);
    CHECK(values(result) == Floats{30, 60});
    take(first, nl::multiply, reduce_cmd::load_reduce, result, 2.0);
    CHECK(values(result) == Floats{2 * 6, 2 * 120});
    take(first, nl::add, reduce_cmd::load_reduce, result, tile_of({2, 1}, {100, 200}));
    CHECK(values(result) == Floats{106, 215});
    nisa::tensor_scalar_reduce(tile({2, 3}), first, nl::multiply, 2.0, nl::minimum, result,
                               {.reduce_res_negate = true});
    CHECK(values(result) == Floats{-2, -8});
    take(first, nl::minimum, reduce_cmd::reduce, result);
    CHECK(values(result) == Floats{1, 4});
    const Floats neutral = {0, 1, -kInfinity, kInfinity};
    const Operation ops[] = {nl::add, nl::multiply, nl::maximum, nl::minimum};
    for (size_t i = 0; i < 4; ++i) {
      take(first, ops[i], reduce_cmd::reset, result);
      CHECK(values(result) == Floats{neutral[i], neutral[i]});
    }
  });
}

TEST_CASE("a reduction that nothing has begun in this kernel is stopped, each partition for itself") {
  const auto one = [] { return tile_of({1, 2}, {1, 2}); };
  on_core([&] { sum_up(one(), reduce_cmd::reset_reduce); });
  CHECK(rule_of([&] { sum_up(one(), reduce_cmd::reduce); }) == "accumulator.unset");
  CHECK(rule_of([&] { take(one(), nl::add, reduce_cmd::reduce); }) == "accumulator.unset");
  CHECK(rule_of([&] {
          sum_up(one(), reduce_cmd::reset_reduce);
          sum_up(tile_of({2, 1}, {1, 2}), reduce_cmd::reduce);
        }) == "accumulator.unset");
}

TEST_CASE("reduce_cmd, and what goes with it only, is refused by name") {
  const auto activation = [](nisa::ActivationOptions options) {
    return rule_of([&] { nisa::activation(tile({1, 2}), nl::copy, tile_of({1, 2}, {1, 2}), options); });
  };
  CHECK(activation({.reduce_op = nl::add}) == "activation.reduce-cmd");
  CHECK(activation({.reduce_op = nl::add, .reduce_cmd = reduce_cmd::load_reduce}) == "activation.reduce-cmd");
  CHECK(activation({.reduce_op = nl::maximum, .reduce_cmd = reduce_cmd::reset_reduce}) ==
        "activation.reduce-op");
  CHECK(activation({.reduce_cmd = reduce_cmd::reset_reduce}) == "activation.reduce-op");
  CHECK(rule_of([] {
          nisa::activation(tile({1, 2}), nl::copy, tile_of({1, 2}, {1, 2}), {.reduce_res = tile({1, 1})});
        }) == "activation.reduce-cmd");
  const auto one = [] { return tile_of({1, 2}, {1, 2}); };
  CHECK(rule_of([&] { take(one(), nl::add, reduce_cmd::idle); }) == "tensor_scalar_reduce.reduce-cmd");
  CHECK(rule_of([&] { take(one(), nl::add, reduce_cmd::reset_reduce, {}, 1.0); }) ==
        "tensor_scalar_reduce.reduce-cmd");
}
