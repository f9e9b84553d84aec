#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include "tests/unit/ops/outcome.h"
#include "tests/unit/test_device.h"
#include "titan/ops/adamw.h"
#include "titan/ops/attention.h"
#include "titan/ops/embedding.h"
#include "titan/ops/linear_cross_entropy.h"
#include "titan/ops/rms_norm.h"
#include "titan/ops/rope.h"
#include "titan/ops/swiglu.h"

// [Note: determinism tests] Our own kernels must not depend on the number of threads; matmuls are the
// library's, so for operators with one inside only a rerun is compared.

using namespace titan;
using at::Tensor;

namespace {

/// The outcome with a number of threads, which is put back afterwards.
Outcome with_threads(int threads, const Function& fn, const std::vector<Tensor>& inputs) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  Outcome all = outcome(fn, inputs);
  at::set_num_threads(before);
  return all;
}

void check_threads(const Function& fn, const std::vector<Tensor>& inputs) {
  const Outcome one = with_threads(1, fn, inputs);
  for (const int threads : {1, 2, 3, 7}) CHECK(same_bits(one, with_threads(threads, fn, inputs)));
}

}  // namespace

TEST_CASE("attention does not depend on the number of threads") {
  const auto first_key = at::zeros({2, 150}, at::TensorOptions(at::kInt));
  check_threads([&](const auto& in) { return attention(in[0], in[1], in[2], first_key, 0.2); },
                {normal({2, 150, 4, 32}, 1), normal({2, 150, 2, 32}, 2), normal({2, 150, 2, 32}, 3)});
}

TEST_CASE("norms, rope, swiglu and embedding do not depend on the number of threads") {
  const std::vector<Tensor> rows{normal({3000, 33}, 1), normal({33}, 2)};
  check_threads([](const auto& in) { return rms_norm(in[0], in[1], 1e-6); }, rows);
  check_threads([](const auto& in) { return swiglu(in[0], in[0] * 2); }, rows);
  const auto ids = integers({4, 3000}, 3, 50);
  check_threads([&](const auto& in) { return titan::embedding(in[0], ids, at::kFloat); },
                {normal({3000, 33}, 4)});
  const auto cache = rope_cache(ids, rope_inverse_frequencies(16, 1e4).to(tests::test_device()));
  check_threads([&](const auto& in) { return rope_cos_sin(in[0], in[0], cache).first; },
                {normal({4, 3000, 2, 16}, 5)});
}

TEST_CASE("the gradient norm and AdamW do not depend on the number of threads") {
  const auto run = [](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const auto grad = normal({333, 1001}, 2);
    auto param = normal({333, 1001}, 1), m = at::zeros({333, 1001}), v = at::zeros({333, 1001});
    adamw_({param}, {grad}, {m}, {v}, {});
    const auto norm = squared_norm({grad});
    at::set_num_threads(before);
    return std::pair(param, norm);
  };
  const auto one = run(1), three = run(3);
  CHECK(one.first.equal(three.first));
  CHECK(one.second.equal(three.second));
}

TEST_CASE("the loss and its gradients are the same bits on every run") {
  const auto labels = integers({300}, 3, 501);
  const std::vector<Tensor> inputs{normal({300, 32}, 1), normal({501, 32}, 2)};
  const Function loss = [&](const auto& in) { return linear_cross_entropy(in[0], in[1], labels, 300, 64); };
  const Outcome once = outcome(loss, inputs);
  for (int run = 0; run < 5; ++run) CHECK(same_bits(once, outcome(loss, inputs)));
}
