// The simulator's speed: each kernel of nkilib beside the CPU operator of the same work, and a tiled bfloat16
// matmul beside the machine's own float32 matmul. One core on one thread, the peer on one thread too, in
// turns: medians of CPU time, which other programs disturb least. Exit code 1 where a kernel takes more times
// the peer's time than it may. Arguments: parts of the names of kernels (all).

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <malloc.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "titan/nki.h"
#include "titan/nki/memory.h"
#include "titan/nkilib/attention/attention.h"
#include "titan/nkilib/cross_entropy/cross_entropy.h"
#include "titan/nkilib/rmsnorm/rmsnorm.h"
#include "titan/nkilib/rope_hf/rope_hf.h"
#include "titan/ops/attention.h"
#include "titan/ops/autograd.h"
#include "titan/ops/rms_norm.h"
#include "titan/ops/rope.h"

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
namespace nkilib = titan::nkilib;
using titan::nki::all;
using titan::nki::ds;
using titan::nki::simulate;

namespace {

using KernelTensor = titan::nki::Tensor;
using at::Tensor;

constexpr int kRounds = 7;
constexpr double kAnyTime = std::numeric_limits<double>::infinity();

/// A kernel and its peer. Each leaves its result where `difference` finds it.
struct Case {
  std::string name;
  double most_ratio;  ///< the kernel's time may be so many times the peer's
  std::function<void()> peer, kernel;
  std::function<double()> difference;         ///< the largest of an element
  std::function<void()> before_peer = [] {};  ///< not timed
};

double seconds(const std::function<void()>& run) {
  const std::clock_t begin = std::clock();
  run();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

/// Prints the row of a case; whether it keeps its bound.
bool measure(const Case& test) {
  std::vector<double> peer_times, kernel_times;
  for (int round = -1; round < kRounds; ++round) {
    test.before_peer();
    const double peer = seconds(test.peer), kernel = seconds(test.kernel);
    if (round < 0) continue;  // pages and threads that only the first one makes
    peer_times.push_back(peer);
    kernel_times.push_back(kernel);
  }
  const double peer = median(peer_times), kernel = median(kernel_times);
  const bool kept = kernel <= test.most_ratio * peer;
  const std::string bound =
      test.most_ratio == kAnyTime ? "-" : std::to_string(static_cast<int>(test.most_ratio)) + "x";
  std::printf("%-60s %9.1f %9.1f %7.2fx %8s %11.3g%s\n", test.name.c_str(), peer * 1e3, kernel * 1e3,
              kernel / peer, bound.c_str(), test.difference(), kept ? "" : "  missed");
  std::fflush(stdout);
  return kept;
}

/// The same bytes as a kernel takes them.
KernelTensor operand(const char* name, const Tensor& tensor) {
  const auto dtype = tensor.scalar_type() == at::kBFloat16 ? nl::bfloat16
                     : tensor.scalar_type() == at::kInt    ? nl::int32
                                                           : nl::float32;
  return titan::nki::host_tensor(name, tensor.sizes().vec(), dtype, tensor.data_ptr(),
                                 std::make_shared<Tensor>(tensor));
}

/// How far a kernel's result is from a tensor of its shape and dtype.
double difference(const KernelTensor& result, const Tensor& expected) {
  const Tensor bytes = at::from_blob(result.allocation()->data, expected.sizes(), expected.scalar_type());
  return (bytes.to(at::kFloat) - expected.to(at::kFloat)).abs().max().item<double>();
}

Tensor drawn(at::IntArrayRef sizes, at::ScalarType dtype) { return (at::rand(sizes) - 0.5).to(dtype); }

/// out [M, N] = lhs [K, M]^T rhs [K, N]: results of 128 x 512, K summed in PSUM. The tiles of lhs for one row
/// of results stay in SBUF, those of rhs are loaded for each.
KernelTensor matmul_kernel(KernelTensor lhs, KernelTensor rhs) {
  constexpr int64_t kRows = 128, kCols = 512, kDepth = 128;
  const int64_t depth = lhs.size(0), rows = lhs.size(1), cols = rhs.size(1);
  const KernelTensor out = nl::ndarray({rows, cols}, lhs.dtype(), nl::shared_hbm);
  for (const int64_t n : nl::affine_range(cols / kCols)) {
    const KernelTensor moving = nl::ndarray({kDepth, depth / kDepth, kCols}, rhs.dtype());
    for (const int64_t k : nl::affine_range(depth / kDepth)) {
      nisa::dma_copy(moving(all, k), rhs(ds(k * kDepth, kDepth), ds(n * kCols, kCols)));
    }
    for (const int64_t m : nl::affine_range(rows / kRows)) {
      const KernelTensor sum = nl::ndarray({kRows, kCols}, nl::float32, nl::psum);
      for (const int64_t k : nl::affine_range(depth / kDepth)) {
        const KernelTensor stationary = nl::ndarray({kDepth, kRows}, lhs.dtype());
        nisa::dma_copy(stationary, lhs(ds(k * kDepth, kDepth), ds(m * kRows, kRows)));
        nisa::nc_matmul(sum, stationary, moving(all, k));
      }
      const KernelTensor result = nl::ndarray({kRows, kCols}, out.dtype());
      nisa::tensor_copy(result, sum);
      nisa::dma_copy(out(ds(m * kRows, kRows), ds(n * kCols, kCols)), result);
    }
  }
  return out;
}

Case matmul() {
  const Tensor a = drawn({2048, 2048}, at::kFloat), b = drawn({2048, 2048}, at::kFloat);
  const Tensor left = a.to(at::kBFloat16), right = b.to(at::kBFloat16);
  const auto out = std::make_shared<KernelTensor>();
  return {"matmul 2048 cubed bfloat16 (PyTorch's mm, float32)", 2, [=] { at::mm(a, b); },
          [=] { *out = simulate(matmul_kernel)(operand("lhs", left), operand("rhs", right)); },
          [=] {
            return difference(*out, at::mm(left.to(at::kFloat).t(), right.to(at::kFloat)).to(at::kBFloat16));
          }};
}

/// Turning back is turning by the opposite angle, for the operator as for the kernel.
Case rope(at::ScalarType dtype, bool backward) {
  const int64_t length = 4096, head_dim = 128;
  const Tensor q = drawn({1, 32, length, head_dim}, dtype), k = drawn({1, 8, length, head_dim}, dtype);
  const Tensor q_BTNH = q.transpose(1, 2).contiguous(), k_BTKH = k.transpose(1, 2).contiguous();
  const Tensor cache =
      titan::rope_cache(at::arange(length).unsqueeze(0), titan::rope_inverse_frequencies(head_dim, 1e6));
  const std::vector<Tensor> parts = cache.split(head_dim, -1);
  const Tensor peer_cache = backward ? at::cat({parts[0], -parts[1]}, -1) : cache;
  const Tensor q_out = at::empty_like(q), k_out = at::empty_like(k);
  const auto expected = std::make_shared<Tensor>();
  return {std::string("rope_hf ") + (backward ? "backward " : "") + "[1, 32, 4096, 128]",
          backward ? kAnyTime : 10,
          [=] { *expected = titan::rope_cos_sin(q_BTNH, k_BTKH, peer_cache).first; },
          [=] {
            simulate(nkilib::rope_hf)(operand("q", q), operand("k", k), operand("q_out", q_out),
                                      operand("k_out", k_out),
                                      {.rope_cache = operand("rope_cache", cache), .backward = backward});
          },
          [=] { return difference(operand("q_out", q_out), expected->transpose(1, 2)); }};
}

Case rms_norm(at::ScalarType dtype) {
  const Tensor x = drawn({4096, 2048}, dtype), weight = at::rand({2048});
  const auto expected = std::make_shared<Tensor>();
  const auto y = std::make_shared<KernelTensor>();
  return {"rmsnorm [4096, 2048]", kAnyTime, [=] { *expected = titan::rms_norm(x, weight, 1e-6); },
          [=] {
            *y = std::get<0>(
                simulate(nkilib::rmsnorm)(operand("x", x), operand("weight", weight), {.eps = 1e-6}));
          },
          [=] { return difference(*y, *expected); }};
}

/// A case whose peer is the backward pass of `forward(input)`, and whose kernel gives the input's gradient.
Case backward_case(std::string name, const Tensor& input, const std::function<Tensor(const Tensor&)>& forward,
                   const Tensor& grad, const std::function<KernelTensor()>& kernel) {
  const Tensor leaf = input.detach().requires_grad_();
  const auto output = std::make_shared<Tensor>();
  const auto result = std::make_shared<KernelTensor>();
  return {std::move(name),
          kAnyTime,
          [=] { titan::backward(*output, grad); },
          [=] { *result = kernel(); },
          [=] { return difference(*result, leaf.grad()); },
          [=] {
            leaf.mutable_grad().reset();
            *output = forward(leaf);
          }};
}

Case rms_norm_backward(at::ScalarType dtype) {
  const Tensor x = drawn({4096, 2048}, dtype), weight = at::rand({2048}), dy = drawn({4096, 2048}, dtype);
  const Tensor weight_leaf = weight.detach().requires_grad_();
  const KernelTensor rstd =
      std::get<1>(simulate(nkilib::rmsnorm)(operand("x", x), operand("weight", weight), {.eps = 1e-6}));
  return backward_case(
      "rmsnorm backward [4096, 2048]", x,
      [=](const Tensor& leaf) { return titan::rms_norm(leaf, weight_leaf, 1e-6); }, dy,
      [=] {
        return std::get<0>(simulate(nkilib::rmsnorm_backward)(operand("dy", dy), operand("x", x),
                                                              operand("weight", weight), rstd));
      });
}

/// Heads of 128 over 2,048 tokens.
struct Heads {
  Heads(int64_t q_heads, int64_t k_heads, at::ScalarType dtype)
      : q(drawn({1, 2048, q_heads, 128}, dtype)),
        k(drawn({1, 2048, k_heads, 128}, dtype)),
        v(drawn({1, 2048, k_heads, 128}, dtype)) {}

  Tensor native() const { return titan::attention(q, k, v, at::zeros({1, 2048}, at::kInt), scale); }
  std::tuple<KernelTensor, KernelTensor> kernel() const {
    return simulate(nkilib::attention_forward)(operand("q", q), operand("k", k), operand("v", v),
                                               {.scale = scale});
  }

  double scale = 1 / std::sqrt(128.0);
  Tensor q, k, v;
};

Case attention(int64_t q_heads, int64_t k_heads, at::ScalarType dtype) {
  const Heads heads(q_heads, k_heads, dtype);
  const auto expected = std::make_shared<Tensor>();
  const auto y = std::make_shared<KernelTensor>();
  return {"attention 2048 x 128, " + std::to_string(q_heads) + " heads on " + std::to_string(k_heads), 10,
          [=] { *expected = heads.native(); }, [=] { *y = std::get<0>(heads.kernel()); },
          [=] { return difference(*y, *expected); }};
}

Case attention_backward(at::ScalarType dtype) {
  Heads heads(8, 2, dtype);
  const Tensor dout = drawn(heads.q.sizes(), dtype);
  const auto [out, lse] = heads.kernel();
  Heads leaves = heads;
  leaves.k = heads.k.detach().requires_grad_();
  leaves.v = heads.v.detach().requires_grad_();
  const auto forward = [=](const Tensor& leaf) {
    Heads of = leaves;
    of.q = leaf;
    return of.native();
  };
  return backward_case("attention backward 2048 x 128, 8 heads on 2", heads.q, forward, dout,
                       [=, out = out, lse = lse] {
                         return std::get<0>(simulate(nkilib::attention_backward)(
                             operand("q", heads.q), operand("k", heads.k), operand("v", heads.v),
                             {out, lse, operand("dout", dout)}, {.scale = heads.scale}));
                       });
}

/// Logits of 512 positions over 32,768 words.
struct Logits {
  explicit Logits(at::ScalarType dtype)
      : logits(drawn({512, 32768}, dtype)), targets(at::randint(32768, {512}, at::kLong)) {}

  std::tuple<KernelTensor, KernelTensor> kernel() const {
    return simulate(nkilib::cross_entropy_forward)(
        operand("logits", logits), operand("targets", ids),
        {.positions_per_batch = 128, .chunk_size = 8192, .dtype = nl::float32});
  }

  Tensor logits, targets, ids = targets.to(at::kInt);
};

Case cross_entropy(at::ScalarType dtype) {
  const Logits of(dtype);
  const auto expected = std::make_shared<Tensor>();
  const auto loss = std::make_shared<KernelTensor>();
  return {"cross_entropy [512, 32768] (PyTorch's)", kAnyTime,
          [=] { *expected = at::cross_entropy_loss(of.logits, of.targets, {}, at::Reduction::None); },
          [=] { *loss = std::get<0>(of.kernel()); },
          [=] { return difference(*loss, expected->to(at::kFloat)); }};
}

Case cross_entropy_backward(at::ScalarType dtype) {
  const Logits of(dtype);
  const KernelTensor lse = std::get<1>(of.kernel());
  const auto forward = [=](const Tensor& leaf) { return at::cross_entropy_loss(leaf, of.targets); };
  return backward_case("cross_entropy backward [512, 32768] (PyTorch's)", of.logits, forward, {}, [=] {
    return simulate(nkilib::cross_entropy_backward)(
        operand("logits", of.logits), operand("targets", of.ids), lse,
        {.positions_per_batch = 128, .chunk_size = 8192, .inplace = false});
  });
}

/// The kernels in one dtype, each made when it is asked for: only one at a time holds memory.
std::vector<std::function<Case()>> cases(at::ScalarType dtype) {
  return {
      [=] { return rope(dtype, false); },
      [=] { return rope(dtype, true); },
      [=] { return rms_norm(dtype); },
      [=] { return rms_norm_backward(dtype); },
      [=] { return attention(1, 1, dtype); },
      [=] { return attention(8, 2, dtype); },
      [=] { return attention_backward(dtype); },
      [=] { return cross_entropy(dtype); },
      [=] { return cross_entropy_backward(dtype); },
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  // The C library keeps what is freed: fresh pages would cost now one side and now the other more than its
  // work.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  at::set_num_threads(1);
  std::printf("%-60s %9s %9s %8s %8s %11s\n", "kernel (peer, where it is no operator of titan)", "peer ms",
              "kernel ms", "ratio", "at most", "difference");
  int missed = 0;
  const auto run = [&](const Case& test) {
    const auto names_it = [&](const std::string& part) { return test.name.find(part) != std::string::npos; };
    if (!wanted.empty() && std::ranges::none_of(wanted, names_it)) return;
    if (!measure(test)) ++missed;
  };
  run(matmul());
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    for (const auto& make : cases(dtype)) {
      Case test = make();
      test.name += dtype == at::kFloat ? ", float32" : ", bfloat16";
      run(test);
    }
  }
  return missed == 0 ? 0 : 1;
}
