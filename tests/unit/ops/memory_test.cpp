#include <ATen/ops/zeros.h>

#include "tests/unit/memory_watch.h"
#include "tests/unit/ops/outcome.h"
#include "titan/ops/attention.h"
#include "titan/ops/linear_cross_entropy.h"

using namespace titan;
using at::Tensor;

TEST_CASE("attention allocates nothing that grows with queries times keys") {
  const auto run = [](int64_t tokens) {
    const auto x = [&](unsigned seed, int64_t heads) {
      return normal({1, tokens, heads, 16}, seed).requires_grad_();
    };
    const auto q = x(1, 2), k = x(2, 1), v = x(3, 1);
    const auto first_key = at::zeros({1, tokens}, at::TensorOptions(at::kInt));
    const auto grad = normal({1, tokens, 2, 16}, 4);
    return watch([&] { backward(attention(q, k, v, first_key, 0.25), grad); });
  };
  const auto shorter = run(1024), longer = run(2048);
  CHECK(longer->largest < 2048 * 2048);  // a [T, S] mask of bytes would be as large
  CHECK(longer->peak < 2.2 * static_cast<double>(shorter->peak));
}

TEST_CASE("the loss holds one chunk of logits, not all of them") {
  constexpr int64_t kRows = 512, kVocab = 4001, kChunk = 32, kDim = 8;
  const auto x = normal({kRows, kDim}, 1).requires_grad_(),
             weight = normal({kVocab, kDim}, 2).requires_grad_();
  const auto labels = integers({kRows}, 3, kVocab);
  for (const bool with_grad : {true, false}) {
    const at::AutoGradMode mode(with_grad);
    const auto seen = watch([&] {
      const auto loss = linear_cross_entropy(x, weight, labels, kRows, kChunk);
      if (with_grad) backward(loss);
    });
    CHECK(seen->largest == kChunk * kVocab * 4);
    const int64_t grads = with_grad ? (kRows + kVocab) * kDim * 4 : 0;
    CHECK(seen->peak < kChunk * kVocab * 4 + grads + 100000);
  }
}
