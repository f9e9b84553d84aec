#include "titan/ops/embedding.h"

#include <ATen/ops/embedding.h>

#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"

using namespace titan;
using at::Tensor;

TEST_CASE("embedding agrees with a reference in double, forward and backward") {
  const auto reference = [](const std::vector<Tensor>& in) { return at::embedding(in[0], in[1]); };
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto ours = [&](const std::vector<Tensor>& in) { return titan::embedding(in[0], in[1], dtype); };
    for (const auto ids : {at::kLong, at::kInt}) {
      check_against(ours, reference, {normal({50, 33}, 1, dtype), integers({3, 40}, 2, 50, ids)},
                    bound_of(dtype));
    }
  }
}

TEST_CASE("a float32 weight gives bfloat16 activations and a float32 gradient") {
  const auto weight = normal({11, 5}, 1).requires_grad_(), ids = integers({2, 7}, 2, 11);
  const auto out = titan::embedding(weight, ids, at::kBFloat16);
  CHECK(out.equal(at::embedding(weight.to(at::kBFloat16), ids)));
  backward(out.to(at::kFloat).sum());
  CHECK((weight.grad().scalar_type() == at::kFloat));
  CHECK(weight.grad().sum().item<double>() == 2 * 7 * 5);
}

TEST_CASE("embedding names the token whose id is outside the vocabulary") {
  const auto weight = normal({11, 5}, 1);
  for (const int64_t bad : {int64_t{11}, int64_t{-1}}) {
    auto ids = integers({2, 3}, 2, 11);
    ids.mutable_data_ptr<int64_t>()[4] = bad;
    CHECK_THROWS_WITH_AS(titan::embedding(weight, ids, at::kFloat),
                         doctest::Contains(format("token 4 has id {}", bad).c_str()), ValueError);
  }
}
