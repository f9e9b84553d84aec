#include "titan/ops/checkpoint.h"

#include <map>
#include <string>

#include "tests/unit/ops/outcome.h"
#include "titan/ops/linear.h"
#include "titan/ops/rms_norm.h"
#include "titan/ops/swiglu.h"

using namespace titan;
using at::Tensor;

namespace {

/// A feed-forward block that counts how often each part runs.
struct CountedBlock {
  Tensor norm = normal({8}, 1).requires_grad_(), up = normal({12, 8}, 2).requires_grad_(),
         gate = normal({12, 8}, 3).requires_grad_(), down = normal({8, 12}, 4).requires_grad_();
  std::map<std::string, int> runs;

  Tensor operator()(const Tensor& x) {
    ++runs["norm"];
    const auto h = rms_norm(x, norm, 1e-6);
    ++runs["swiglu"];
    return x + titan::linear(swiglu(titan::linear(h, gate), titan::linear(h, up)), down);
  }

  std::vector<Tensor> grads() const { return {norm.grad(), up.grad(), gate.grad(), down.grad()}; }
};

}  // namespace

TEST_CASE("a checkpointed segment gives the same bits and runs exactly once more") {
  CountedBlock plain, checkpointed;
  const auto x1 = normal({2, 5, 8}, 5).requires_grad_(), x2 = x1.detach().clone().requires_grad_();
  const auto expected = plain(x1);
  const auto out =
      checkpoint("block", [&](const std::vector<Tensor>& in) { return checkpointed(in[0]); }, {x2});
  CHECK(out.equal(expected));
  CHECK(checkpointed.runs == std::map<std::string, int>{{"norm", 1}, {"swiglu", 1}});
  backward(expected.sum());
  backward(out.sum());
  CHECK(checkpointed.runs == std::map<std::string, int>{{"norm", 2}, {"swiglu", 2}});
  CHECK(x2.grad().equal(x1.grad()));
  for (size_t i = 0; i < 4; ++i) CHECK(checkpointed.grads()[i].equal(plain.grads()[i]));
}

TEST_CASE("parameters inside get gradients though no input requires one") {
  CountedBlock block;
  const auto out =
      checkpoint("block", [&](const std::vector<Tensor>& in) { return block(in[0]); }, {normal({3, 8}, 5)});
  CHECK(out.requires_grad());
  backward(out.sum());
  for (const auto& grad : block.grads()) CHECK(grad.defined());
}

TEST_CASE("gradient hooks of parameters fire inside the nested backward") {
  CountedBlock block;
  int fired = 0;
  on_grad_ready(block.down, [&](const Tensor&) { ++fired; });
  const auto x = normal({3, 8}, 5).requires_grad_();
  const auto run = [&](const std::vector<Tensor>& in) { return block(in[0]); };
  backward(checkpoint("second", run, {checkpoint("first", run, {x})}).sum());
  CHECK(fired == 2);
  CHECK(x.grad().defined());
}

TEST_CASE("a checkpoint inside a checkpoint works") {
  CountedBlock plain, nested;
  const auto x1 = normal({3, 8}, 5).requires_grad_(), x2 = x1.detach().clone().requires_grad_();
  backward(plain(plain(x1)).sum());
  const auto inner = [&](const std::vector<Tensor>& in) { return nested(in[0]); };
  const auto outer = [&](const std::vector<Tensor>& in) {
    return checkpoint("inner", inner, {nested(in[0])});
  };
  backward(checkpoint("outer", outer, {x2}).sum());
  CHECK(x2.grad().equal(x1.grad()));
  CHECK(nested.runs["norm"] == 5);  // outer twice; inner once in the first run, twice in the second
}

TEST_CASE("integer and unused outputs and inputs pass through a checkpoint") {
  const auto x = normal({4}, 5).requires_grad_(), positions = integers({4}, 6, 9);
  const auto outputs = checkpoint(
      "many", [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * in[1], in[0].sin()}; },
      {x, positions});
  backward(outputs[0].sum());
  CHECK(x.grad().equal(positions.to(at::kFloat)));
}

TEST_CASE("without gradients a checkpoint is a plain call") {
  const NoGrad guard;
  CountedBlock block;
  const auto out =
      checkpoint("block", [&](const std::vector<Tensor>& in) { return block(in[0]); }, {normal({3, 8}, 5)});
  CHECK_FALSE(out.requires_grad());
  CHECK(block.runs["norm"] == 1);
}
