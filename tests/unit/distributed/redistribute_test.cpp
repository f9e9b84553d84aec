#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/distributed/thread_ranks.h"
#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"
#include "titan/distributed/tensor_parallel.h"

// B batch, T tokens of a row, D dim.
namespace titan {

namespace {

constexpr int64_t kGroupRanks = 3, kBatchRows = 2, kRankTokens = 5, kRowTokens = kGroupRanks * kRankTokens,
                  kWidth = 7;

at::Tensor tokens_of(const at::Tensor& whole, int64_t rank) {
  return whole.narrow(1, rank * kRankTokens, kRankTokens).contiguous();
}

at::Tensor whole_of(int64_t rank, unsigned seed, at::ScalarType dtype) {
  return normal({kBatchRows, kRowTokens, kWidth}, seed + static_cast<unsigned>(rank), dtype);
}

/// Summed in float32 in rank order, then rounded.
at::Tensor sum_of(unsigned seed, at::ScalarType dtype) {
  at::Tensor sum = whole_of(0, seed, dtype).to(at::kFloat);
  for (int64_t rank = 1; rank < kGroupRanks; ++rank) sum = sum + whole_of(rank, seed, dtype).to(at::kFloat);
  return sum.to(dtype);
}

struct LayoutCase {
  LayoutChange layouts;
  /// What a rank puts in and what it ought to get; forward and backward.
  std::function<at::Tensor(int64_t rank)> input, output, grad_output, grad_input;
};

std::vector<LayoutCase> layout_table(at::ScalarType dtype) {
  const auto whole = [dtype](int64_t) { return whole_of(0, 10, dtype); };
  const auto part = [dtype](int64_t rank) { return tokens_of(whole_of(0, 10, dtype), rank); };
  const auto summand = [dtype](int64_t rank) { return whole_of(rank, 20, dtype); };
  const auto sum = [dtype](int64_t) { return sum_of(20, dtype); };
  const auto part_of_sum = [dtype](int64_t rank) { return tokens_of(sum_of(20, dtype), rank); };
  return {{{Layout::sequence, Layout::replicate}, part, whole, summand, part_of_sum},
          {{Layout::replicate, Layout::replicate}, whole, whole, summand, sum},
          {{Layout::partial, Layout::sequence}, summand, part_of_sum, part, whole},
          {{Layout::partial, Layout::replicate}, summand, sum, whole, whole}};
}

struct MovedTensors {
  at::Tensor output, grad;
};

std::vector<MovedTensors> move_on_ranks(const LayoutCase& change) {
  std::vector<MovedTensors> moved(kGroupRanks);
  tests::run_ranks(kGroupRanks, [&](Group& group) {
    const int64_t rank = group.index();
    const at::Tensor x = change.input(rank).requires_grad_();
    const at::Tensor y = redistribute(x, change.layouts, group);
    // A gradient whose memory has another order than its sizes.
    backward(y, change.grad_output(rank).transpose(0, 1).contiguous().transpose(0, 1));
    moved[static_cast<size_t>(rank)] = {y.detach(), x.grad()};
  });
  return moved;
}

}  // namespace

TEST_CASE("each change of layout and its backward move what the table says") {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const LayoutCase& change : layout_table(dtype)) {
      INFO(format("{} -> {} in {}", static_cast<int>(change.layouts.from),
                  static_cast<int>(change.layouts.to), c10::toString(dtype)));
      const auto moved = move_on_ranks(change);
      for (int64_t rank = 0; rank < kGroupRanks; ++rank) {
        const MovedTensors& at_rank = moved[static_cast<size_t>(rank)];
        CHECK(at_rank.output.equal(change.output(rank)));
        CHECK(at_rank.grad.equal(change.grad_input(rank)));
        CHECK((at_rank.output.scalar_type() == dtype));
        CHECK((at_rank.grad.scalar_type() == dtype));
      }
    }
  }
}

TEST_CASE("sums leave the summands as they were") {
  tests::run_ranks(2, [](Group& group) {
    const at::Tensor x = whole_of(group.index(), 20, at::kFloat), before = x.clone();
    redistribute(x, {Layout::partial, Layout::replicate}, group);
    CHECK(x.equal(before));
  });
}

TEST_CASE("tokens that do not divide and pairs outside the table are refused") {
  tests::run_ranks(4, [](Group& group) {
    const at::Tensor x = at::zeros({1, 6, 2});
    CHECK_THROWS_WITH_AS(redistribute(x, {Layout::partial, Layout::sequence}, group),
                         "sequence parallel: 6 tokens do not divide into 4 ranks of threads", ValueError);
    CHECK_THROWS_WITH_AS(redistribute(x, {Layout::sequence, Layout::partial}, group),
                         "there is no change of layout from sequence to partial", ValueError);
  });
}

TEST_CASE("a layout changes on shapes alone") {
  tests::run_ranks(2, [](Group& group) {
    const auto x = at::zeros({2, 6, 3}, at::TensorOptions(at::kMeta)).requires_grad_();
    const auto gathered = redistribute(x, {Layout::sequence, Layout::replicate}, group);
    CHECK(gathered.sizes() == at::IntArrayRef{2, 12, 3});
    const auto scattered = redistribute(gathered, {Layout::partial, Layout::sequence}, group);
    CHECK(scattered.sizes() == x.sizes());
    backward(scattered.sum());
    CHECK(x.grad().sizes() == x.sizes());
  });
}

}  // namespace titan
