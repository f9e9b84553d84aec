#include "titan/ops/linear.h"

#include <ATen/ops/linear.h>

#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"

using namespace titan;
using at::Tensor;

namespace {

Tensor linear_of(const std::vector<Tensor>& in) { return titan::linear(in[0], in[1]); }
Tensor linear_reference(const std::vector<Tensor>& in) { return at::linear(in[0], in[1]); }

}  // namespace

TEST_CASE("linear agrees with a reference in double, forward and backward") {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    check_against(linear_of, linear_reference, {normal({3, 7, 33}, 1, dtype), normal({17, 33}, 2, dtype)},
                  bound_of(dtype));
    check_against(linear_of, linear_reference, {normal({1, 1}, 3, dtype), normal({1, 1}, 4, dtype)},
                  bound_of(dtype));
  }
}

TEST_CASE("a bfloat16 input with a float32 master weight gives a float32 weight gradient") {
  check_against(linear_of, linear_reference, {normal({2, 9, 16}, 1, at::kBFloat16), normal({24, 16}, 2)},
                kBf16Bound);
  const auto x = normal({2, 9, 16}, 1, at::kBFloat16), weight = normal({24, 16}, 2);
  CHECK(titan::linear(x, weight).equal(titan::linear(x, weight.to(at::kBFloat16))));
}

TEST_CASE("linear takes strided views") {
  const auto x = normal({5, 8, 6}, 1).transpose(0, 1), weight = normal({6, 4}, 2).t();
  CHECK(difference(titan::linear(x, weight), titan::linear(x.contiguous(), weight.contiguous())) <
        kFloatBound);
}

TEST_CASE("linear of no rows gives no rows and a zero weight gradient") {
  const Outcome all = outcome(linear_of, {normal({0, 6}, 1), normal({4, 6}, 2)});
  CHECK(all.result.sizes() == at::IntArrayRef({0, 4}));
  CHECK(all.grads[1].abs().max().item<double>() == 0);
}

TEST_CASE("linear refuses shapes and dtypes that do not fit") {
  CHECK_THROWS_AS(titan::linear(normal({2, 3}, 1), normal({4, 5}, 2)), ValueError);
  CHECK_THROWS_AS(titan::linear(normal({2, 3}, 1), normal({4, 3}, 2, at::kBFloat16)), ValueError);
  CHECK_THROWS_AS(titan::linear(normal({2, 3}, 1, at::kDouble), normal({4, 3}, 2, at::kDouble)), ValueError);
}
