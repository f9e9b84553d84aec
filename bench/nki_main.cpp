// The simulator's speed on one thread: a tiled bf16 matmul kernel beside the machine's own float32 matmul,
// and kernels of nkilib beside our CPU operators. CPU time, which other programs disturb least:
//   bench_nki [size of the matmul] [runs]

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>

#include "titan/nki.h"
#include "titan/nki/memory.h"
#include "titan/nkilib/attention/attention.h"
#include "titan/nkilib/rmsnorm/rmsnorm.h"
#include "titan/nkilib/rope_hf/rope_hf.h"
#include "titan/ops/attention.h"
#include "titan/ops/rms_norm.h"
#include "titan/ops/rope.h"

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using namespace titan::nki;

namespace {

/// out [M, N] = lhs [K, M]^T rhs [K, N]: results of 128 x 512, K summed in PSUM. The tiles of lhs for one row
/// of results stay in SBUF, those of rhs are loaded for each.
void matmul_kernel(const Tensor& out, const Tensor& lhs, const Tensor& rhs) {
  constexpr int64_t kRows = 128, kCols = 512, kDepth = 128;
  const int64_t depth = lhs.size(0), rows = lhs.size(1), cols = rhs.size(1);
  for (const int64_t n : nl::affine_range(cols / kCols)) {
    Tensor moving = nl::ndarray({kDepth, depth / kDepth, kCols}, rhs.dtype());
    for (const int64_t k : nl::affine_range(depth / kDepth)) {
      nisa::dma_copy(moving(all, k), rhs(ds(k * kDepth, kDepth), ds(n * kCols, kCols)));
    }
    for (const int64_t m : nl::affine_range(rows / kRows)) {
      Tensor sum = nl::ndarray({kRows, kCols}, nl::float32, nl::psum);
      for (const int64_t k : nl::affine_range(depth / kDepth)) {
        Tensor stationary = nl::ndarray({kDepth, kRows}, lhs.dtype());
        nisa::dma_copy(stationary, lhs(ds(k * kDepth, kDepth), ds(m * kRows, kRows)));
        nisa::nc_matmul(sum, stationary, moving(all, k));
      }
      Tensor result = nl::ndarray({kRows, kCols}, out.dtype());
      nisa::tensor_copy(result, sum);
      nisa::dma_copy(out(ds(m * kRows, kRows), ds(n * kCols, kCols)), result);
    }
  }
}

double fastest_seconds(int runs, const std::function<void()>& run) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    const std::clock_t begin = std::clock();
    run();
    fastest = std::min(fastest, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return fastest;
}

Tensor host_of(const char* name, const at::Tensor& tensor) {
  const Dtype dtype = tensor.scalar_type() == at::kBFloat16 ? Dtype::bfloat16 : Dtype::float32;
  return host_tensor(name, tensor.sizes().vec(), dtype, tensor.data_ptr(),
                     std::make_shared<at::Tensor>(tensor));
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kFloat) - b.to(at::kFloat)).abs().max().item<double>();
}

void time_matmul(int64_t size, int runs) {
  const at::Tensor a = at::rand({size, size}) - 0.5, b = at::rand({size, size}) - 0.5;
  const at::Tensor left = a.to(at::kBFloat16), right = b.to(at::kBFloat16), out = at::empty_like(left);
  const double native = fastest_seconds(runs, [&] { at::mm(a, b); });
  const double kernel = fastest_seconds(runs, [&] {
    run_on_cores({},
                 [&] { matmul_kernel(host_of("out", out), host_of("lhs", left), host_of("rhs", right)); });
  });
  const double off = largest_difference(out, at::mm(left.to(at::kFloat).t(), right.to(at::kFloat)));
  const double flops =
      2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  std::printf("matmul of %lld cubed\n", static_cast<long long>(size));
  std::printf("  float32 of this machine  %8.1f ms  %6.1f GFLOPS\n", native * 1e3, flops / native / 1e9);
  std::printf("  bfloat16 NKI kernel      %8.1f ms  %6.1f GFLOPS  %.2fx  largest difference %.3g\n",
              kernel * 1e3, flops / kernel / 1e9, native / kernel, off);
}

void print_kernel(const char* name, at::ScalarType dtype, double native, double kernel, double difference) {
  std::printf("%s %s\n", name, dtype == at::kFloat ? "float32" : "bfloat16");
  std::printf("  CPU operator             %8.1f ms\n", native * 1e3);
  std::printf("  NKI kernel               %8.1f ms  %.2fx  largest difference %.3g\n", kernel * 1e3,
              native / kernel, difference);
}

void time_rope(at::ScalarType dtype, int runs) {
  const int64_t length = 4096, head_dim = 128;
  const auto drawn = [&](int64_t heads) { return (at::rand({1, heads, length, head_dim}) - 0.5).to(dtype); };
  const at::Tensor q = drawn(32), k = drawn(8), q_out = at::empty_like(q), k_out = at::empty_like(k);
  const at::Tensor cache =
      titan::rope_cache(at::arange(length).unsqueeze(0), titan::rope_inverse_frequencies(head_dim, 1e6));
  const at::Tensor q_BTNH = q.transpose(1, 2).contiguous(), k_BTKH = k.transpose(1, 2).contiguous();
  at::Tensor expected;
  const double native =
      fastest_seconds(runs, [&] { expected = titan::rope_cos_sin(q_BTNH, k_BTKH, cache).first; });
  const double kernel = fastest_seconds(runs, [&] {
    simulate(titan::nkilib::rope_hf)(host_of("q", q), host_of("k", k), host_of("q_out", q_out),
                                     host_of("k_out", k_out), {.rope_cache = host_of("rope_cache", cache)});
  });
  print_kernel("rope_hf of [1, 32, 4096, 128] and [1, 8, 4096, 128]", dtype, native, kernel,
               largest_difference(q_out, expected.transpose(1, 2)));
}

void time_rms_norm(at::ScalarType dtype, int runs) {
  const at::Tensor x = (at::rand({4096, 2048}) - 0.5).to(dtype), weight = at::rand({2048});
  at::Tensor expected, y = at::empty_like(x);
  const double native = fastest_seconds(runs, [&] { expected = titan::rms_norm(x, weight, 1e-6); });
  const double kernel = fastest_seconds(runs, [&] {
    const auto [result, rstd] =
        simulate(titan::nkilib::rmsnorm)(host_of("x", x), host_of("weight", weight), {.eps = 1e-6});
    std::memcpy(y.data_ptr(), result.allocation()->data, y.nbytes());
  });
  print_kernel("rmsnorm of [4096, 2048]", dtype, native, kernel, largest_difference(y, expected));
}

void time_attention(int64_t q_heads, int64_t k_heads, at::ScalarType dtype, int runs) {
  const int64_t length = 2048, head_dim = 128;
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const auto drawn = [&](int64_t heads) { return (at::rand({1, length, heads, head_dim}) - 0.5).to(dtype); };
  const at::Tensor q = drawn(q_heads), k = drawn(k_heads), v = drawn(k_heads);
  const at::Tensor first_key = at::zeros({1, length}, at::kInt);
  at::Tensor expected, y = at::empty_like(q);
  const double native =
      fastest_seconds(runs, [&] { expected = titan::attention(q, k, v, first_key, scale); });
  const double kernel = fastest_seconds(runs, [&] {
    const auto [out, lse] = simulate(titan::nkilib::attention_forward)(host_of("q", q), host_of("k", k),
                                                                       host_of("v", v), {.scale = scale});
    std::memcpy(y.data_ptr(), out.allocation()->data, y.nbytes());
  });
  std::printf("%lld heads on %lld: ", static_cast<long long>(q_heads), static_cast<long long>(k_heads));
  print_kernel("causal attention of 2048 x 128", dtype, native, kernel, largest_difference(y, expected));
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t size = argc > 1 ? std::atoll(argv[1]) : 2048;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 3;
  if (size < 512 || size % 512 != 0 || runs < 1) {
    std::fprintf(stderr, "bench_nki [size: a multiple of 512] [runs]\n");
    return 2;
  }
  at::set_num_threads(1);
  time_matmul(size, runs);
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    time_rope(dtype, runs);
    time_rms_norm(dtype, runs);
    time_attention(1, 1, dtype, runs);
    time_attention(8, 2, dtype, runs);
  }
  return 0;
}
