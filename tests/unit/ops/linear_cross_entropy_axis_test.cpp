#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "tests/unit/distributed/thread_ranks.h"
#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"
#include "titan/distributed/tensor_parallel.h"
#include "titan/ops/linear_cross_entropy.h"

namespace titan {

namespace {

constexpr int64_t kCutVocab = 2047;

struct LossInputs {
  at::Tensor x, weight, labels;
};

LossInputs loss_inputs(at::ScalarType x_dtype, at::ScalarType weight_dtype, double scale) {
  LossInputs in{normal({3, 21, 32}, 1, x_dtype), normal({kCutVocab, 32}, 2, weight_dtype) * scale,
                integers({3, 21}, 7, kCutVocab)};
  auto* label = in.labels.mutable_data_ptr<int64_t>();
  for (int64_t i = 3; i < in.labels.numel(); i += i % 5 + 2) label[i] = kIgnoreLabel;
  label[0] = kCutVocab - 1;  // in the last, shorter part
  label[1] = 0;
  return in;
}

struct LossResult {
  double loss = 0;
  at::Tensor dx, dweight;
  int64_t gathers = 0, gathered_bytes = 0;
};

LossResult loss_alone(const LossInputs& in) {
  const at::Tensor x = in.x.clone().requires_grad_(), weight = in.weight.clone().requires_grad_();
  const at::Tensor loss = linear_cross_entropy(x, weight, in.labels, 50.0);
  backward(loss * 2);
  return {loss.item<double>(), x.grad(), weight.grad()};
}

std::vector<LossResult> loss_on(int64_t ranks, const LossInputs& in, int64_t chunk) {
  std::vector<LossResult> results(static_cast<size_t>(ranks));
  tests::run_ranks(ranks, [&](Group& group) {
    const Range mine = chunk_of(kCutVocab, ranks, group.index());
    const TensorAxis axis = tensor_axis(group);
    const at::Tensor x = in.x.clone().requires_grad_();
    const at::Tensor weight = in.weight.narrow(0, mine.begin, mine.count).clone().requires_grad_();
    const at::Tensor loss = linear_cross_entropy(
        x, weight, in.labels, 50.0, {.rows = {mine.begin, kCutVocab}, .axis = axis, .chunk = chunk});
    const int64_t gathers = group.counters().all_gathers, bytes = group.counters().all_gather_bytes;
    backward(loss * 2);
    results[static_cast<size_t>(group.index())] = {loss.item<double>(), x.grad(), weight.grad(), gathers,
                                                   bytes};
  });
  return results;
}

/// Losses equal, gradients summed over x and joined over the weight: as on one rank.
void check_loss(const LossInputs& in, int64_t ranks, int64_t chunk, double bound) {
  INFO(format("{} ranks, chunks of {}", ranks, chunk));
  const LossResult alone = loss_alone(in);
  const auto results = loss_on(ranks, in, chunk);
  at::Tensor dx = at::zeros_like(alone.dx, at::kFloat);
  std::vector<at::Tensor> dweight;
  for (const LossResult& result : results) {
    CHECK(result.loss == results[0].loss);
    dx += result.dx.to(at::kFloat);
    dweight.push_back(result.dweight);
  }
  CHECK(std::abs(results[0].loss - alone.loss) <= bound * std::abs(alone.loss));
  CHECK(difference(dx, alone.dx) <= bound);
  CHECK(difference(at::cat(dweight), alone.dweight) <= bound);
  CHECK((results[0].dx.scalar_type() == in.x.scalar_type()));
  CHECK((results[0].dweight.scalar_type() == in.weight.scalar_type()));
}

}  // namespace

TEST_CASE("the loss over a vocabulary cut unevenly is that of one rank, with its gradients") {
  const LossInputs in = loss_inputs(at::kFloat, at::kFloat, 0.3);
  for (const int64_t ranks : {2, 4}) {
    for (const int64_t chunk : {0, 1, 8, 1000}) check_loss(in, ranks, chunk, 2e-6);
  }
}

TEST_CASE("a cut vocabulary keeps logits of hundreds finite") {
  check_loss(loss_inputs(at::kFloat, at::kFloat, 40.0), 4, 8, 1e-5);
}

TEST_CASE("a cut vocabulary agrees in bfloat16, with weights of either dtype") {
  check_loss(loss_inputs(at::kBFloat16, at::kBFloat16, 0.3), 4, 8, 2e-2);
  check_loss(loss_inputs(at::kBFloat16, at::kFloat, 0.3), 2, 0, 2e-2);
}

TEST_CASE("a cut vocabulary gathers three floats of a row, once per chunk, and no logits") {
  const LossInputs in = loss_inputs(at::kFloat, at::kFloat, 0.3);
  for (const LossResult& rank : loss_on(4, in, 8)) {
    CHECK(rank.gathers == 8);
    CHECK(rank.gathered_bytes == 3 * 21 * 3 * 4 * 3);
  }
}

TEST_CASE("without gradients the loss over ranks is the same") {
  const LossInputs in = loss_inputs(at::kFloat, at::kFloat, 0.3);
  const double with_gradients = loss_on(2, in, 8)[0].loss;
  tests::run_ranks(2, [&](Group& group) {
    const Range mine = chunk_of(kCutVocab, 2, group.index());
    const TensorAxis axis = tensor_axis(group);
    const at::Tensor loss =
        linear_cross_entropy(in.x, in.weight.narrow(0, mine.begin, mine.count), in.labels, 50.0,
                             {.rows = {mine.begin, kCutVocab}, .axis = axis, .chunk = 8});
    CHECK(loss.item<double>() == with_gradients);
  });
}

TEST_CASE("an axis of one rank gives the bits of the operator that knows no ranks") {
  const LossInputs in = loss_inputs(at::kFloat, at::kFloat, 0.3);
  const TensorAxis alone;
  const at::Tensor loss =
      linear_cross_entropy(in.x, in.weight, in.labels, 50.0, {.rows = {0, kCutVocab}, .axis = alone});
  CHECK(loss.equal(linear_cross_entropy(in.x, in.weight, in.labels, 50.0)));
}

TEST_CASE("a label outside the whole vocabulary is refused by every rank") {
  LossInputs in = loss_inputs(at::kFloat, at::kFloat, 0.3);
  in.labels.mutable_data_ptr<int64_t>()[5] = kCutVocab;
  CHECK_THROWS_WITH_AS(loss_on(2, in, 0),
                       "linear_cross_entropy: label 5 is 2047; it must be -100 or in [0, 2047)", ValueError);
}

TEST_CASE("the loss over ranks runs on shapes alone") {
  const auto meta = [](const at::Tensor& t) { return t.to(at::kMeta); };
  const LossInputs in = loss_inputs(at::kFloat, at::kFloat, 0.3);
  const TensorAxis axis{.size = 2, .index = 0, .gather = {}};
  const at::Tensor x = meta(in.x).requires_grad_(), weight = meta(in.weight).narrow(0, 0, 1024).detach();
  weight.requires_grad_();
  backward(linear_cross_entropy(x, weight, meta(in.labels), 50.0, {.rows = {0, kCutVocab}, .axis = axis}));
  CHECK(x.grad().sizes() == x.sizes());
  CHECK(weight.grad().sizes() == weight.sizes());
}

TEST_CASE("columns of uneven ranks join to the whole, and a gradient's own columns come back") {
  const at::Tensor whole = normal({2, 3, 11}, 3), grad = normal({2, 3, 11}, 4);
  tests::run_ranks(4, [&](Group& group) {
    const Range mine = chunk_of(11, 4, group.index());
    const at::Tensor part = whole.narrow(-1, mine.begin, mine.count).contiguous().requires_grad_();
    const at::Tensor joined = gather_columns(part, 11, tensor_axis(group));
    CHECK(joined.equal(whole));
    backward(joined, grad);
    CHECK(part.grad().equal(grad.narrow(-1, mine.begin, mine.count)));
  });
}

}  // namespace titan
