#include <doctest/doctest.h>

#include <string>

#include "tests/unit/nki/moving.h"
#include "titan/nki/gemm.h"

using namespace titan::nki;
using namespace titan::nki::moving;

namespace {

std::vector<float> packed(const std::vector<float>& matrix, int64_t depth, int64_t width, int64_t panel) {
  const int64_t panels = (width + panel - 1) / panel;
  std::vector<float> out(static_cast<size_t>(panels * panel * depth), NAN);
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t j = 0; j < width; ++j) {
      out[static_cast<size_t>((j / panel * depth + k) * panel + j % panel)] =
          matrix[static_cast<size_t>(k * width + j)];
    }
  }
  return out;
}

/// Elements of C that are not what loops give, or that changed outside of C.
int64_t wrong_elements(const GemmKernel& kernel, int64_t rows, int64_t cols, int64_t depth, bool accumulate) {
  const int64_t c_row = cols + 3;
  const std::vector<float> a = quarters(depth * rows, 1), b = quarters(depth * cols, 2);
  const std::vector<float> before = quarters(rows * c_row, 3);
  const std::vector<float> left = packed(a, depth, rows, kernel.panel_rows);
  const std::vector<float> right = packed(b, depth, cols, kernel.panel_cols);
  std::vector<float> c = before;
  kernel.run({rows, cols, depth, left.data(), right.data(), c.data(), c_row, accumulate});
  int64_t wrong = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < c_row; ++j) {
      float expected = before[static_cast<size_t>(i * c_row + j)];
      if (j < cols) {
        expected = accumulate ? expected : 0;
        for (int64_t k = 0; k < depth; ++k) {
          expected += a[static_cast<size_t>(k * rows + i)] * b[static_cast<size_t>(k * cols + j)];
        }
      }
      wrong += c[static_cast<size_t>(i * c_row + j)] != expected ? 1 : 0;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("gemm: each instruction set multiplies all sizes as loops do") {
  for (const titan::Isa isa : {titan::Isa::baseline, titan::Isa::avx2, titan::Isa::avx512}) {
    const std::string set(name(isa));
    if (isa > titan::best_cpu_isa()) {
      CHECK_THROWS_WITH_AS(gemm_kernel(isa), doctest::Contains(set.c_str()), titan::ValueError);
      continue;
    }
    const GemmKernel& kernel = gemm_kernel(isa);
    for (const int64_t rows : {1, 3, 8, 17, 128}) {
      for (const int64_t cols : {1, 7, 24, 32, 65, 512}) {
        for (const int64_t depth : {1, 2, 127}) {
          for (const bool accumulate : {false, true}) {
            INFO(set, " ", rows, " x ", cols, " x ", depth, accumulate ? " added" : "");
            CHECK(wrong_elements(kernel, rows, cols, depth, accumulate) == 0);
          }
        }
      }
    }
  }
}
