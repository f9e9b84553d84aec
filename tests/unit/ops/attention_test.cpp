#include "titan/ops/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "tests/unit/ops/outcome.h"
#include "titan/base/error.h"

using namespace titan;
using at::Tensor;

namespace {

/// Softmax attention with a whole mask and repeated keys.
Tensor attention_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& first_key,
                           double scale) {
  const int64_t queries = q.size(1), keys = k.size(1), group = q.size(2) / k.size(2);
  const auto heads_first = [&](const Tensor& x, int64_t repeat) {
    return x.repeat_interleave(repeat, 2).transpose(1, 2);
  };
  const auto scores = at::matmul(heads_first(q, 1), heads_first(k, group).transpose(2, 3)) * scale;
  const auto last = at::arange(queries).unsqueeze(1) + (keys - queries), key = at::arange(keys).unsqueeze(0);
  const auto hidden = (key > last).unsqueeze(0).logical_or(key.unsqueeze(0) < first_key.unsqueeze(2));
  const auto masked = scores.masked_fill(hidden.unsqueeze(1), -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(masked, -1), heads_first(v, group)).transpose(1, 2);
}

/// B, T, S, N, K, H.
struct Sizes {
  int64_t batch, queries, keys, heads, kv_heads, dim;
};

std::vector<Tensor> inputs_of(const Sizes& s, at::ScalarType dtype) {
  return {normal({s.batch, s.queries, s.heads, s.dim}, 1, dtype),
          normal({s.batch, s.keys, s.kv_heads, s.dim}, 2, dtype),
          normal({s.batch, s.keys, s.kv_heads, s.dim}, 3, dtype)};
}

Tensor causal(int64_t batch, int64_t queries) {
  return at::zeros({batch, queries}, at::TensorOptions(at::kInt));
}

/// Documents of the given lengths in one row, as positions [1, T].
Tensor packed_positions(const std::vector<int64_t>& lengths) {
  std::vector<Tensor> parts;
  for (const int64_t length : lengths) parts.push_back(at::arange(length));
  return at::cat(parts).unsqueeze(0);
}

Function attend(const Tensor& first_key, double scale) {
  return [=](const std::vector<Tensor>& in) { return attention(in[0], in[1], in[2], first_key, scale); };
}

}  // namespace

TEST_CASE("attention agrees with a reference in double, forward and backward") {
  for (const Sizes& s : {Sizes{2, 77, 77, 4, 2, 32}, Sizes{1, 130, 200, 6, 3, 17}, Sizes{2, 25, 25, 3, 1, 64},
                         Sizes{2, 1, 50, 6, 2, 33}, Sizes{1, 3, 40, 4, 4, 8}, Sizes{1, 300, 300, 2, 1, 128},
                         Sizes{2, 4, 4, 2, 1, 1}}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      INFO("T ", s.queries, " S ", s.keys, " H ", s.dim);
      const auto first_key = causal(s.batch, s.queries);
      const double scale = 1 / std::sqrt(static_cast<double>(s.dim));
      const Function whole = [&](const std::vector<Tensor>& in) {
        return attention_reference(in[0], in[1], in[2], first_key, scale);
      };
      check_against(attend(first_key, scale), whole, inputs_of(s, dtype), bound_of(dtype));
    }
  }
}

TEST_CASE("a token alone attends to itself") {
  const auto in = inputs_of({3, 1, 1, 2, 2, 16}, at::kFloat);
  const Outcome all = outcome(attend(causal(3, 1), 0.25), in);
  CHECK(difference(all.result, in[2]) < kFloatBound);
  CHECK(all.grads[0].abs().max().item<double>() < kFloatBound);
  CHECK(all.grads[1].abs().max().item<double>() < kFloatBound);
}

TEST_CASE("attention sees only its document, also with documents that differ by row") {
  const Sizes s{2, 100, 100, 4, 2, 20};
  const auto first_key = first_keys(at::cat({packed_positions({40, 1, 59}), packed_positions({3, 90, 7})}));
  const Function whole = [&](const std::vector<Tensor>& in) {
    return attention_reference(in[0], in[1], in[2], first_key, 0.2);
  };
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    check_against(attend(first_key, 0.2), whole, inputs_of(s, dtype), bound_of(dtype));
  }
}

TEST_CASE("a packed document has the bits of the document alone, forward and backward") {
  const std::vector<int64_t> lengths{37, 1, 130, 5, 64};
  const Sizes s{1, 237, 237, 4, 2, 24};
  const auto inputs = inputs_of(s, at::kFloat);
  const Outcome packed = outcome(attend(first_keys(packed_positions(lengths)), 0.2), inputs);
  const auto grad = normal(packed.result.sizes(), 99).to(at::kBFloat16).to(at::kFloat);
  int64_t start = 0;
  for (const int64_t length : lengths) {
    INFO("document at ", start);
    const auto part = [&](const Tensor& x) { return x.narrow(1, start, length); };
    std::vector<Tensor> alone;
    for (const auto& input : inputs) alone.push_back(part(input).clone().requires_grad_());
    const auto out = attention(alone[0], alone[1], alone[2], causal(1, length), 0.2);
    backward(out, part(grad));
    // Few queries take another path, whose sums over the head dimension run in another order.
    const auto same = [&](const Tensor& a, const Tensor& b) {
      return length < 4 ? difference(a, b) < kFloatBound : a.equal(b);
    };
    CHECK(same(out.detach(), part(packed.result)));
    for (size_t i = 0; i < 3; ++i) CHECK(same(alone[i].grad(), part(packed.grads[i])));
    start += length;
  }
}

TEST_CASE("first_keys starts a document where positions do not go on") {
  const auto positions = at::cat({packed_positions({3, 2, 1}), at::arange(100, 106).unsqueeze(0)});
  const auto first = first_keys(positions);
  CHECK((first.scalar_type() == at::kInt));
  const int32_t expected[] = {0, 0, 0, 3, 3, 5, 0, 0, 0, 0, 0, 0};
  for (int64_t i = 0; i < 12; ++i) CHECK(first.const_data_ptr<int32_t>()[i] == expected[i]);
}

TEST_CASE("attention reads a part of a cache as it lies") {
  const auto q = normal({2, 6, 4, 16}, 1), cache = normal({2, 64, 2, 2, 16}, 2);
  const auto k = cache.narrow(1, 0, 30).select(2, 0), v = cache.narrow(1, 0, 30).select(2, 1);
  for (const int64_t queries : {int64_t{1}, int64_t{6}}) {
    const auto part = q.narrow(1, 0, queries);
    CHECK(attention(part, k, v, causal(2, queries), 0.25)
              .equal(attention(part.contiguous(), k.contiguous(), v.contiguous(), causal(2, queries), 0.25)));
  }
}

TEST_CASE("decoding step by step agrees with all queries at once") {
  const Sizes s{2, 20, 20, 4, 2, 16};
  const auto in = inputs_of(s, at::kFloat);
  const auto whole = attention(in[0], in[1], in[2], causal(2, 20), 0.25);
  for (int64_t t = 0; t < 20; ++t) {
    const auto step = attention(in[0].narrow(1, t, 1), in[1].narrow(1, 0, t + 1), in[2].narrow(1, 0, t + 1),
                                causal(2, 1), 0.25);
    CHECK(difference(step, whole.narrow(1, t, 1)) < kFloatBound);
  }
}

TEST_CASE("a query that sees no key gives zeros and no gradient") {
  const auto inputs = inputs_of({1, 8, 8, 2, 1, 16}, at::kFloat);
  auto first_key = causal(1, 8);
  first_key.mutable_data_ptr<int32_t>()[5] = 1000;
  const Outcome all = outcome(attend(first_key, 0.25), inputs);
  CHECK(all.result.select(1, 5).abs().max().item<double>() == 0);
  CHECK(all.grads[0].select(1, 5).abs().max().item<double>() == 0);
  CHECK(all.grads[1].isfinite().all().item<bool>());
}

TEST_CASE("attention survives large scores") {
  const auto in = inputs_of({1, 30, 30, 2, 1, 16}, at::kFloat);
  const auto out = attention(in[0] * 1000, in[1] * 1000, in[2], causal(1, 30), 1.0);
  CHECK(out.isfinite().all().item<bool>());
}

TEST_CASE("attention computes only the gradients that are wanted") {
  auto in = inputs_of({1, 40, 40, 4, 2, 16}, at::kFloat);
  const Outcome all = outcome(attend(causal(1, 40), 0.25), in);
  for (size_t wanted = 0; wanted < 3; ++wanted) {
    std::vector<Tensor> leaves{in[0].clone(), in[1].clone(), in[2].clone()};
    leaves[wanted].requires_grad_();
    backward(attention(leaves[0], leaves[1], leaves[2], causal(1, 40), 0.25),
             normal(in[0].sizes(), 99).to(at::kBFloat16).to(at::kFloat));
    for (size_t i = 0; i < 3; ++i) CHECK(leaves[i].grad().defined() == (i == wanted));
    CHECK(leaves[wanted].grad().equal(all.grads[wanted]));
  }
}

TEST_CASE("attention of nothing gives nothing, and shapes that do not fit are refused") {
  const auto in = inputs_of({1, 8, 8, 4, 2, 16}, at::kFloat);
  CHECK(attention(in[0].narrow(0, 0, 0), in[1].narrow(0, 0, 0), in[2].narrow(0, 0, 0), causal(0, 8), 1)
            .numel() == 0);
  CHECK_THROWS_AS(attention(in[0], in[1].narrow(1, 0, 7), in[2].narrow(1, 0, 7), causal(1, 8), 1),
                  ValueError);
  CHECK_THROWS_AS(attention(in[0].narrow(2, 0, 3), in[1], in[2], causal(1, 8), 1), ValueError);
  CHECK_THROWS_AS(attention(in[0], in[1], in[2].to(at::kBFloat16), causal(1, 8), 1), ValueError);
  CHECK_THROWS_AS(attention(in[0], in[1], in[2], causal(1, 7), 1), ValueError);
  CHECK_THROWS_AS(attention(in[0], in[1], in[2], causal(1, 8).to(at::kLong), 1), ValueError);
}
