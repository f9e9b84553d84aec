#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <doctest/doctest.h>

#include "titan/nn/parameter.h"

using namespace titan;

namespace {

at::Tensor filled(const std::vector<int64_t>& shape, const Block& block, uint64_t seed, std::string_view name,
                  at::ScalarType dtype = at::kFloat) {
  const at::Tensor out = at::empty(block.shape, at::TensorOptions().dtype(dtype));
  fill_block(out, {Init::Kind::normal, 0.02}, shape, block, seed, name);
  return out;
}

at::Tensor whole(const std::vector<int64_t>& shape, uint64_t seed, std::string_view name) {
  return filled(shape, {std::vector<int64_t>(shape.size(), 0), shape}, seed, name);
}

}  // namespace

TEST_CASE("every block of a weight has the bits that the whole weight has there") {
  const std::vector<int64_t> shape{37, 53};
  const at::Tensor all = whole(shape, 7, "layers.0.w");
  for (const Block& block : {Block{{0, 0}, {1, 53}}, Block{{19, 0}, {18, 53}}, Block{{5, 11}, {7, 13}},
                             Block{{36, 52}, {1, 1}}, Block{{0, 3}, {37, 50}}}) {
    const at::Tensor part =
        all.narrow(0, block.offset[0], block.shape[0]).narrow(1, block.offset[1], block.shape[1]);
    CHECK(at::equal(filled(shape, block, 7, "layers.0.w"), part));
  }
  const at::Tensor vector = whole({1000}, 1, "norm");
  CHECK(at::equal(filled({1000}, {{333}, {500}}, 1, "norm"), vector.narrow(0, 333, 500)));
}

TEST_CASE("the numbers are normal, and differ by seed and by name") {
  const at::Tensor values = whole({512, 513}, 3, "a").flatten() / 0.02;
  CHECK(std::abs(values.mean().item<double>()) < 0.01);
  CHECK(values.std().item<double>() == doctest::Approx(1.0).epsilon(0.01));
  CHECK(values.pow(4).mean().item<double>() == doctest::Approx(3.0).epsilon(0.05));  // kurtosis of a normal
  CHECK(values.abs().max().item<double>() < 7.0);
  // Neighbours share one Philox block and one Box-Muller pair; they must not follow one another.
  for (const int64_t lag : {1, 2, 3, 4, 513}) {
    const auto n = values.numel() - lag;
    CHECK(std::abs((values.narrow(0, 0, n) * values.narrow(0, lag, n)).mean().item<double>()) < 0.01);
  }
  CHECK_FALSE(at::equal(whole({64}, 3, "a"), whole({64}, 4, "a")));
  CHECK_FALSE(at::equal(whole({64}, 3, "a"), whole({64}, 3, "b")));
}

TEST_CASE("bfloat16 parameters are the float32 ones, rounded") {
  const Block block{{0}, {999}};
  const at::Tensor narrow = filled({999}, block, 5, "w", at::kBFloat16);
  CHECK(at::equal(narrow, filled({999}, block, 5, "w").to(at::kBFloat16)));
}

TEST_CASE("the first numbers never change, so that a seed means one model") {
  // From an independent Philox-4x32-10 and Box-Muller in double precision, checked against the known answer
  // 6627e8d5 e169c58d bc57ac4c 9b00dbd8 for counter and key zero.
  const double expected[] = {-0.002690957601431929, 0.03408865053562241, -0.013968390528702787,
                             -0.022286363261884816};
  const at::Tensor values = whole({4}, 42, "tok_embeddings.weight");
  for (int64_t i = 0; i < 4; ++i)
    CHECK(values[i].item<double>() == doctest::Approx(expected[i]).epsilon(1e-5));
}
