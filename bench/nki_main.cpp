// The simulator's speed: a tiled bf16 matmul kernel beside the machine's own float32 matmul, on one thread:
//   bench_nki [size] [runs]

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>

#include "titan/nki.h"
#include "titan/nki/memory.h"

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
    const auto begin = std::chrono::steady_clock::now();
    run();
    fastest =
        std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return fastest;
}

Tensor host_of(const char* name, const at::Tensor& tensor) {
  return host_tensor(name, tensor.sizes().vec(), Dtype::bfloat16, tensor.data_ptr(),
                     std::make_shared<at::Tensor>(tensor));
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
  const at::Tensor a = at::rand({size, size}) - 0.5, b = at::rand({size, size}) - 0.5;
  const at::Tensor left = a.to(at::kBFloat16), right = b.to(at::kBFloat16), out = at::empty_like(left);
  const double native = fastest_seconds(runs, [&] { at::mm(a, b); });
  const double kernel = fastest_seconds(runs, [&] {
    run_on_cores({},
                 [&] { matmul_kernel(host_of("out", out), host_of("lhs", left), host_of("rhs", right)); });
  });
  const at::Tensor expected = at::mm(left.to(at::kFloat).t(), right.to(at::kFloat));
  const double off = (out.to(at::kFloat) - expected).abs().max().item<double>();
  const double flops =
      2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  std::printf("matmul of %lld cubed on one thread\n", static_cast<long long>(size));
  std::printf("  float32 of this machine  %8.1f ms  %6.1f GFLOPS\n", native * 1e3, flops / native / 1e9);
  std::printf("  bfloat16 NKI kernel      %8.1f ms  %6.1f GFLOPS  %.2fx  largest difference %.3g\n",
              kernel * 1e3, flops / kernel / 1e9, native / kernel, off);
  return 0;
}
