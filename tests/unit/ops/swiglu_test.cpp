#include "titan/ops/swiglu.h"

#include <ATen/ops/silu.h>

#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"

using namespace titan;
using at::Tensor;

namespace {

Tensor swiglu_of(const std::vector<Tensor>& in) { return swiglu(in[0], in[1]); }
Tensor swiglu_reference(const std::vector<Tensor>& in) { return at::silu(in[0]) * in[1]; }

}  // namespace

TEST_CASE("swiglu agrees with a reference in double, forward and backward") {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t width : {1, 15, 16, 33}) {
      check_against(swiglu_of, swiglu_reference,
                    {normal({3, 7, width}, 1, dtype) * 4, normal({3, 7, width}, 2, dtype)}, bound_of(dtype));
    }
  }
}

TEST_CASE("swiglu is right where the exponential overflows, and keeps NaN") {
  auto gate = normal({7}, 1);
  const double values[] = {-1000, -100, -88, 88, 100, 1000, std::nan("")};
  for (int64_t i = 0; i < 7; ++i) gate.mutable_data_ptr<float>()[i] = static_cast<float>(values[i]);
  const auto out = swiglu(gate, at::empty({7}).fill_(2)).to(at::kDouble);
  const double* given = out.const_data_ptr<double>();
  for (int64_t i = 0; i < 6; ++i) {
    CHECK(given[i] == doctest::Approx(2 * values[i] / (1 + std::exp(-values[i]))).epsilon(1e-6));
  }
  CHECK(std::isnan(given[6]));
}

TEST_CASE("swiglu takes strided views and refuses unlike operands") {
  const auto both = normal({4, 6, 10}, 1);
  const auto gate = both.narrow(2, 0, 5), up = both.narrow(2, 5, 5);
  CHECK(swiglu(gate, up).equal(swiglu(gate.contiguous(), up.contiguous())));
  CHECK_THROWS_AS(swiglu(gate, both), ValueError);
  CHECK_THROWS_AS(swiglu(gate, up.to(at::kBFloat16)), ValueError);
}
