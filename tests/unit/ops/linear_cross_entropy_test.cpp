#include "titan/ops/linear_cross_entropy.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>

#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"

using namespace titan;
using at::Tensor;

namespace {

constexpr int64_t kOddVocab = 2047;
constexpr double kNormalizer = 77;

Tensor labels_of(at::IntArrayRef sizes) {
  auto labels = integers(sizes, 7, kOddVocab);
  auto* label = labels.mutable_data_ptr<int64_t>();
  for (int64_t i = 3; i < labels.numel(); i += i % 5 + 2) label[i] = kIgnoreLabel;
  label[0] = kOddVocab - 1;
  return labels;
}

Tensor loss_reference(const std::vector<Tensor>& in) {
  const auto logits = at::linear(in[0], in[1]);
  return at::cross_entropy_loss(logits.flatten(0, -2), in[2].flatten(), {}, at::Reduction::Sum) / kNormalizer;
}

Function loss_in_chunks(int64_t chunk) {
  return [=](const std::vector<Tensor>& in) {
    return linear_cross_entropy(in[0], in[1], in[2], kNormalizer, chunk);
  };
}

}  // namespace

TEST_CASE("linear_cross_entropy agrees with a reference in double for every chunk") {
  const std::vector<Tensor> inputs{normal({3, 41, 33}, 1), normal({kOddVocab, 33}, 2), labels_of({3, 41})};
  for (const int64_t chunk : {0, 1, 50, 123, 1000})
    check_against(loss_in_chunks(chunk), loss_reference, inputs, kFloatBound);
}

TEST_CASE("linear_cross_entropy agrees in bfloat16, whose logits are rounded") {
  const auto x = normal({2, 30, 32}, 1, at::kBFloat16);
  for (const auto dtype : {at::kBFloat16, at::kFloat}) {
    check_against(loss_in_chunks(7), loss_reference,
                  {x, normal({kOddVocab, 32}, 2, dtype) * 0.2, labels_of({2, 30})}, 3e-2);
  }
}

TEST_CASE("the loss is the same with and without gradients, and scales them") {
  const auto x = normal({9, 16}, 1), weight = normal({kOddVocab, 16}, 2), labels = labels_of({9});
  const auto plain = linear_cross_entropy(x, weight, labels, kNormalizer);
  const std::vector<Tensor> leaves{x.clone().requires_grad_(), weight.clone().requires_grad_()};
  const auto loss = linear_cross_entropy(leaves[0], leaves[1], labels, kNormalizer);
  CHECK(loss.equal(plain));
  CHECK((loss.scalar_type() == at::kFloat));
  backward(loss * 4);
  const Outcome once =
      outcome([&](const auto& in) { return loss_in_chunks(0)(in) / normal({}, 99).to(at::kBFloat16); },
              {x, weight, labels});
  CHECK(difference(leaves[0].grad(), once.grads[0] * 4) < kFloatBound);
  CHECK(difference(leaves[1].grad(), once.grads[1] * 4) < kFloatBound);
}

TEST_CASE("only the gradients that are wanted are made") {
  const auto labels = labels_of({9});
  const auto x = normal({9, 16}, 1).requires_grad_(), weight = normal({kOddVocab, 16}, 2).requires_grad_();
  backward(linear_cross_entropy(x, weight.detach(), labels, 1));
  CHECK(x.grad().defined());
  backward(linear_cross_entropy(x.detach(), weight, labels, 1));
  CHECK(weight.grad().defined());
}

TEST_CASE("ignored rows count nothing: no loss, no gradient") {
  auto labels = labels_of({6});
  labels.fill_(kIgnoreLabel);
  const auto x = normal({6, 16}, 1).requires_grad_(), weight = normal({kOddVocab, 16}, 2).requires_grad_();
  const auto loss = linear_cross_entropy(x, weight, labels, 5);
  CHECK(loss.item<double>() == 0);
  backward(loss);
  CHECK(x.grad().abs().max().item<double>() == 0);
  CHECK(weight.grad().abs().max().item<double>() == 0);
}

TEST_CASE("losses of unequal parts under one normaliser add up to the token mean") {
  // Rows of 1 and 9 tokens, summed losses 2 and 90: the token mean is 9.2, the mean of means would be 6.
  const auto weight = normal({kOddVocab, 16}, 2), x = normal({10, 16}, 1),
             labels = integers({10}, 3, kOddVocab);
  const auto whole = linear_cross_entropy(x, weight, labels, 10).item<double>();
  const auto first =
      linear_cross_entropy(x.narrow(0, 0, 1), weight, labels.narrow(0, 0, 1), 10).item<double>();
  const auto rest =
      linear_cross_entropy(x.narrow(0, 1, 9), weight, labels.narrow(0, 1, 9), 10).item<double>();
  CHECK(first + rest == doctest::Approx(whole).epsilon(1e-6));
}

TEST_CASE("a NaN in the input reaches the loss") {
  auto x = normal({4, 16}, 1);
  x.mutable_data_ptr<float>()[20] = std::nanf("");
  CHECK(std::isnan(
      linear_cross_entropy(x, normal({kOddVocab, 16}, 2), integers({4}, 3, kOddVocab), 4).item<double>()));
}

TEST_CASE("a second backward is refused instead of scaling twice") {
  const auto x = normal({4, 16}, 1).requires_grad_();
  const auto loss = linear_cross_entropy(x, normal({kOddVocab, 16}, 2), integers({4}, 3, kOddVocab), 4);
  loss.backward({}, /*retain_graph=*/true);
  CHECK_THROWS(backward(loss));
}

TEST_CASE("linear_cross_entropy refuses labels, normalisers and shapes that do not fit") {
  const auto x = normal({4, 16}, 1), weight = normal({kOddVocab, 16}, 2);
  auto labels = integers({4}, 3, kOddVocab);
  CHECK_THROWS_AS(linear_cross_entropy(x, weight, labels, 0), ValueError);
  CHECK_THROWS_AS(linear_cross_entropy(x, weight, labels, std::nan("")), ValueError);
  CHECK_THROWS_AS(linear_cross_entropy(x, weight, labels, 4, -1), ValueError);
  CHECK_THROWS_AS(linear_cross_entropy(x, weight, labels.narrow(0, 0, 3), 4), ValueError);
  CHECK_THROWS_AS(linear_cross_entropy(x, weight, labels.to(at::kInt), 4), ValueError);
  for (const int64_t bad : {kOddVocab, int64_t{-1}}) {
    labels.mutable_data_ptr<int64_t>()[2] = bad;
    CHECK_THROWS_WITH_AS(linear_cross_entropy(x, weight, labels, 4),
                         doctest::Contains(format("label 2 is {}", bad).c_str()), ValueError);
  }
}
