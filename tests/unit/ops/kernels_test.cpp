#include "titan/ops/kernels/kernels.h"

#include <algorithm>
#include <cstring>

#include "tests/unit/ops/outcome.h"
#include "titan/ops/cpu_info.h"

using namespace titan;

namespace {

std::vector<float> numbers(size_t count, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution(0, scale);
  std::vector<float> all(count);
  for (float& value : all) value = distribution(generator);
  return all;
}

ConstArray input(const std::vector<float>& values) { return {values.data(), Element::f32}; }
Array output(std::vector<float>& values) { return {values.data(), Element::f32}; }

bool same_bits_of(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Results of every kernel on odd sizes, one after the other.
std::vector<float> everything(const Kernels& table) {
  constexpr int64_t kRows = 5, kDim = 37;
  const size_t count = kRows * kDim;
  const auto a = numbers(count, 1, 3), b = numbers(count, 2), g = numbers(count, 3);
  std::vector<float> all;
  const auto keep = [&](const std::vector<float>& part) { all.insert(all.end(), part.begin(), part.end()); };
  std::vector<float> x(count), y(count), z(count), small(kRows), weight_grad(kDim);

  table.swiglu({.gate = input(a), .up = input(b), .out = output(x)}, 0, static_cast<int64_t>(count));
  keep(x);
  table.swiglu_backward(
      {.gate = input(a), .up = input(b), .grad = input(g), .dgate = output(x), .dup = output(y)}, 0,
      static_cast<int64_t>(count));
  keep(x), keep(y);
  table.rms_norm({.x = input(a),
                  .residual = input(b),
                  .sum = output(x),
                  .y = output(y),
                  .weight = g.data(),
                  .rstd = small.data(),
                  .dim = kDim,
                  .eps = 1e-6F},
                 0, kRows);
  keep(x), keep(y), keep(small);
  table.rms_norm_backward({.x = input(a),
                           .grad = input(g),
                           .grad_sum = input(b),
                           .dx = output(x),
                           .weight = b.data(),
                           .rstd = small.data(),
                           .dweight = weight_grad.data(),
                           .dim = kDim},
                          0, kRows);
  keep(x), keep(weight_grad);
  x = a;
  const int64_t labels[kRows] = {0, 36, -100, 17, 3};
  table.cross_entropy({.logits = output(x),
                       .labels = labels,
                       .loss = small.data(),
                       .vocab = kDim,
                       .scale = 0.2F,
                       .with_grad = true},
                      0, kRows);
  keep(x), keep(small);
  x = a, y.assign(count, 0.5F), z.assign(count, 0.25F);
  table.adamw({.param = output(x),
               .exp_avg = output(y),
               .exp_avg_sq = output(z),
               .grad = input(g),
               .grad_scale = 0.7F,
               .decay = 0.99F,
               .rest1 = 0.1F,
               .beta2 = 0.95F,
               .rest2 = 0.05F,
               .step_size = 0.01F,
               .bias_correction2_sqrt = 0.3F,
               .eps = 1e-8F},
              0, static_cast<int64_t>(count));
  keep(x), keep(y), keep(z);
  std::vector<uint16_t> half(count);
  table.convert(input(a), {half.data(), Element::bf16}, static_cast<int64_t>(count));
  table.convert({half.data(), Element::bf16}, output(x), static_cast<int64_t>(count));
  keep(x);
  all.push_back(static_cast<float>(table.sum_of_squares(input(a), static_cast<int64_t>(count))));
  return all;
}

/// Results of the attention kernels: one row of 29 tokens in two documents, 4 heads on 2, head dimension 19.
std::vector<float> attention_everything(const Kernels& table) {
  constexpr int64_t kTokens = 29, kHeads = 4, kKvHeads = 2, kDim = 19, kPadded = 32;
  const auto q = numbers(kTokens * kHeads * kDim, 1), grad = numbers(q.size(), 2);
  const auto k = numbers(kTokens * kKvHeads * kDim, 3), v = numbers(k.size(), 4);
  std::vector<int32_t> first_key(kTokens);
  for (size_t t = 11; t < first_key.size(); ++t) first_key[t] = 11;
  std::vector<float> packed(kKvHeads * (kPadded + kTokens) * kPadded), scratch(16 * kPadded * kPadded);
  std::vector<float> result(q.size()), logsumexp(kHeads * kTokens), dq(q.size()), dk(k.size()), dv(k.size());
  const HeadStrides strides{0, kHeads * kDim, kDim}, kv_strides{0, kKvHeads * kDim, kDim};
  AttentionArgs args{.q = input(q), .k = input(k), .v = input(v), .grad_out = input(grad)};
  args.q_strides = args.out_strides = args.grad_strides = strides;
  args.k_strides = args.v_strides = kv_strides;
  args.first_key = first_key.data();
  args.queries = args.keys = kTokens;
  args.heads = kHeads;
  args.kv_heads = kKvHeads;
  args.head_dim = kDim;
  args.scale = 0.23F;
  args.block = 24;
  args.keys_padded = args.dim_padded = kPadded;
  args.packed = packed.data();
  args.result = output(result);
  args.logsumexp = logsumexp.data();
  table.attention_pack(args, 0, kKvHeads);
  table.attention_forward(args, 0, kHeads * 2, scratch.data());
  args.out = input(result);
  args.dq = output(dq);
  args.dk = output(dk);
  args.dv = output(dv);
  table.attention_backward(args, 0, kKvHeads, scratch.data());
  std::vector<float> all;
  for (const auto* part : {&result, &logsumexp, &dq, &dk, &dv})
    all.insert(all.end(), part->begin(), part->end());
  table.attention_in_place(args, 0, kHeads * kTokens, scratch.data());
  all.insert(all.end(), result.begin(), result.end());
  return all;
}

}  // namespace

TEST_CASE("every instruction set this machine has gives the same bits") {
  if (cpu_isa() == Isa::baseline) return;
  CHECK(same_bits_of(everything(kernels_for(Isa::avx2)), everything(kernels())));
  CHECK(same_bits_of(attention_everything(kernels_for(Isa::avx2)), attention_everything(kernels())));
}

TEST_CASE("the baseline, which has no fused multiply-add, differs only by rounding") {
  const auto baseline = everything(kernels_for(Isa::baseline)), best = everything(kernels());
  for (size_t i = 0; i < best.size(); ++i) CHECK(baseline[i] == doctest::Approx(best[i]).epsilon(2e-5));
}

TEST_CASE("kernels give an element the same bits wherever a range begins") {
  const auto gate = numbers(100, 1), up = numbers(100, 2);
  std::vector<float> whole(100), parts(100);
  kernels().swiglu({.gate = input(gate), .up = input(up), .out = output(whole)}, 0, 100);
  for (int64_t begin = 0, end = 0; begin < 100; begin = end) {
    end = std::min<int64_t>(100, begin + 1 + begin % 19);
    kernels().swiglu({.gate = input(gate), .up = input(up), .out = output(parts)}, begin, end);
  }
  CHECK(same_bits_of(whole, parts));
}

TEST_CASE("the exponential is within two units in the last place") {
  // swiglu with gate -x and up 1 is -x / (1 + e^x); where x is large, that is -x · e^-x to the last bit or
  // so.
  std::vector<float> gate, up;
  for (float x = 17; x < 87; x += 0.0137F) gate.push_back(-x), up.push_back(1);
  std::vector<float> given(gate.size());
  kernels().swiglu({.gate = input(gate), .up = input(up), .out = output(given)}, 0,
                   static_cast<int64_t>(gate.size()));
  double worst = 0;
  for (size_t i = 0; i < gate.size(); ++i) {
    const double x = gate[i], expected = x / (1 + std::exp(-x));
    worst = std::max(worst, std::abs(given[i] / expected - 1));
  }
  CHECK(worst < 3 * 5.97e-8);
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN and infinities") {
  const std::vector<float> values{1.0F,
                                  1.00390625F,  // half way between 1 and 1.0078125: to even, 1
                                  1.01171875F,  // half way, to even: 1.015625
                                  3.4e38F,      // beyond the largest: infinity
                                  -0.0F,       std::nanf(""), std::numeric_limits<float>::infinity()};
  std::vector<uint16_t> half(values.size());
  kernels().convert(input(values), {half.data(), Element::bf16}, static_cast<int64_t>(values.size()));
  CHECK(half[0] == 0x3f80);
  CHECK(half[1] == 0x3f80);
  CHECK(half[2] == 0x3f82);
  CHECK(half[3] == 0x7f80);
  CHECK(half[4] == 0x8000);
  CHECK((half[5] & 0x7fc0) == 0x7fc0);
  CHECK(half[6] == 0x7f80);
}

TEST_CASE("instruction sets have names") {
  CHECK(name(Isa::baseline) == "baseline");
  CHECK(name(Isa::avx2) == "avx2");
  CHECK(name(Isa::avx512) == "avx512");
  CHECK((!bf16_arithmetic() || cpu_isa() == Isa::avx512));
  CHECK(measured_peak_flops() > 1e8);
}
