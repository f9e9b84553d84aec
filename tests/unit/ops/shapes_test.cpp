#include <ATen/ops/zeros.h>

#include "tests/unit/ops/outcome.h"
#include "tests/unit/test_device.h"
#include "titan/base/error.h"
#include "titan/ops/adamw.h"
#include "titan/ops/attention.h"
#include "titan/ops/checkpoint.h"
#include "titan/ops/embedding.h"
#include "titan/ops/linear.h"
#include "titan/ops/linear_cross_entropy.h"
#include "titan/ops/rms_norm.h"
#include "titan/ops/rope.h"
#include "titan/ops/swiglu.h"

// Forward and backward on shapes alone.

using namespace titan;
using at::Tensor;

namespace {

/// A small transformer from ids to loss, out of our operators only.
struct SmallModel {
  Tensor embed, norm, head_norm, wq, wk, wv, wo, w1, w3, w2, ids, positions, labels, frequencies;

  explicit SmallModel(at::Device device, at::ScalarType dtype = at::kFloat) {
    unsigned seed = 0;
    const auto weight = [&](at::IntArrayRef sizes) {
      return normal(sizes, ++seed).mul(0.1).to(dtype).to(device).requires_grad_();
    };
    embed = weight({50, 24});
    norm = weight({24});
    head_norm = weight({8});
    wq = weight({32, 24});
    wk = weight({16, 24});
    wv = weight({16, 24});
    wo = weight({24, 32});
    w1 = weight({40, 24});
    w3 = weight({40, 24});
    w2 = weight({24, 40});
    ids = integers({2, 9}, 90, 50).to(device);
    positions = integers({2, 9}, 91, 5).to(device);
    labels = integers({2, 9}, 92, 50).to(device);
    frequencies = rope_inverse_frequencies(8, 1e4).to(device);
  }

  std::vector<Tensor> params() const { return {embed, norm, head_norm, wq, wk, wv, wo, w1, w3, w2}; }

  Tensor block(const Tensor& x) const {
    const auto heads = [&](const Tensor& h, const Tensor& w, int64_t count) {
      return titan::linear(h, w).view({2, 9, count, 8});
    };
    const auto h = rms_norm(x, norm, 1e-6);
    const auto [q, k] =
        rope_cos_sin(rms_norm(heads(h, wq, 4), head_norm, 1e-6), rms_norm(heads(h, wk, 2), head_norm, 1e-6),
                     rope_cache(positions, frequencies));
    const auto mixed = attention(q, k, heads(h, wv, 2), first_keys(positions), 0.35).flatten(2);
    const auto [sum, f] = add_rms_norm(titan::linear(mixed, wo), x, norm, 1e-6);
    return sum + titan::linear(swiglu(titan::linear(f, w1), titan::linear(f, w3)), w2);
  }

  Tensor loss(at::ScalarType compute) const {
    const auto x = titan::embedding(embed, ids, compute);
    const auto run = [this](const std::vector<Tensor>& in) { return block(in[0]); };
    return linear_cross_entropy(checkpoint("block", run, {block(x)}), embed, labels, 18);
  }
};

}  // namespace

TEST_CASE("forward and backward of every operator run on shapes alone") {
  for (const auto compute : {at::kFloat, at::kBFloat16}) {
    const SmallModel real(tests::test_device()), shapes(at::kMeta);
    backward(real.loss(compute));
    const auto loss = shapes.loss(compute);
    CHECK(loss.is_meta());
    CHECK(loss.dim() == 0);
    backward(loss);
    const auto expected = real.params(), given = shapes.params();
    for (size_t i = 0; i < given.size(); ++i) {
      INFO("parameter ", i);
      REQUIRE(given[i].grad().defined());
      CHECK(given[i].grad().sizes() == expected[i].grad().sizes());
      CHECK((given[i].grad().scalar_type() == expected[i].grad().scalar_type()));
      CHECK(given[i].grad().strides() == expected[i].grad().strides());
    }
  }
}

TEST_CASE("the optimizer runs on shapes alone") {
  const SmallModel shapes(at::kMeta);
  std::vector<Tensor> params = shapes.params(), state;
  for (const auto& param : params) state.push_back(param.detach());
  adamw_(params, state, state, state, {});
  CHECK(squared_norm(params).is_meta());
}

TEST_CASE("shape functions refuse what the kernels refuse") {
  const auto meta = [](at::IntArrayRef sizes) { return at::zeros(sizes, at::TensorOptions(at::kMeta)); };
  CHECK_THROWS_AS(titan::linear(meta({2, 3}), meta({4, 5})), ValueError);
  CHECK_THROWS_AS(swiglu(meta({2, 3}), meta({2, 4})), ValueError);
  CHECK_THROWS_AS(rms_norm(meta({2, 3}), meta({4}), 1e-6), ValueError);
}
