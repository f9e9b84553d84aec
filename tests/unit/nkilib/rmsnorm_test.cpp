#include "titan/nkilib/rmsnorm/rmsnorm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/nkilib/arrays.h"
#include "titan/base/error.h"

namespace titan::nkilib {
namespace {

using nki::ds;
using nki::Dtype;
using nki::Tensor;
using testing::Array;
using testing::values_of;
using Floats = std::vector<float>;

struct NormShape {
  int64_t rows, features;
  Dtype dtype;
};

/// One row and one column, whole tiles and parts of tiles, odd sizes, more columns than are worked on at
/// once.
const NormShape kNormShapes[] = {
    {1, 1, Dtype::float32},     {1, 16384, Dtype::float32},   {2, 16384, Dtype::bfloat16},
    {3, 7, Dtype::float32},     {128, 256, Dtype::float32},   {129, 255, Dtype::float32},
    {300, 33, Dtype::bfloat16}, {256, 1024, Dtype::bfloat16}, {77, 2049, Dtype::float32},
    {517, 5, Dtype::float32},
};

/// Half a unit in the last place, of 1.
double unit(Dtype dtype) { return std::ldexp(1.0, dtype == Dtype::bfloat16 ? -8 : -24); }
const double kUnit = unit(Dtype::float32);

/// Whether |got - expected| <= bound everywhere.
bool within(const Floats& got, const std::vector<double>& expected, const std::vector<double>& bound) {
  if (got.size() != expected.size()) return false;
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(double{got[i]} - expected[i]) <= bound[i])) {
      MESSAGE("element ", i, ": ", got[i], " for ", expected[i], ", bound ", bound[i]);
      return false;
    }
  return true;
}

/// Additions on the way to the sum of a row: one after another within a block of columns, then the blocks'.
double row_additions(int64_t features) { return static_cast<double>(std::min<int64_t>(features, 2048)) + 8; }

/// Inputs, in double as the kernel sees them.
struct NormCase {
  explicit NormCase(const NormShape& of, Dtype weight_dtype = Dtype::float32)
      : shape(of),
        x({of.rows, of.features}, of.dtype, testing::draw(of.rows * of.features, 1)),
        dy({of.rows, of.features}, of.dtype, testing::draw(of.rows * of.features, 2)),
        weight({of.features}, weight_dtype, testing::draw(of.features, 3)) {}

  int64_t index(int64_t row, int64_t column) const { return row * shape.features + column; }

  NormShape shape;
  Array x, dy, weight;
};

/// Row by row 1 / sqrt(mean(x^2) + eps).
std::vector<double> exact_rstd(const NormCase& of, double eps) {
  const Floats x = of.x.values();
  std::vector<double> rstd;
  for (int64_t r = 0; r < of.shape.rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < of.shape.features; ++c) {
      const double value = x[static_cast<size_t>(of.index(r, c))];
      sum += value * value;
    }
    rstd.push_back(1 / std::sqrt(sum / static_cast<double>(of.shape.features) + eps));
  }
  return rstd;
}

TEST_CASE("rmsnorm is within its roundings of the double reference, on one core and on two") {
  for (const NormShape& shape : kNormShapes)
    for (const int64_t lnc : {1, 2}) {
      CAPTURE(shape.rows);
      CAPTURE(shape.features);
      CAPTURE(lnc);
      NormCase of(shape);
      const auto [y, rstd] =
          nki::simulate(rmsnorm)[lnc](of.x.tensor(), of.weight.tensor(), RmsNormOptions{.eps = 1e-5});
      CHECK(y.shape() == std::vector<int64_t>{shape.rows, shape.features});
      CHECK(y.dtype() == shape.dtype);
      CHECK(rstd.shape() == std::vector<int64_t>{shape.rows, 1});
      CHECK(rstd.dtype() == Dtype::float32);

      // The sum of squares: a rounding a square and one an addition, all of one sign. The mean: 1 / H, its
      // product, eps, its addition. The root halves what came before; it and its reciprocal have one each.
      const double rstd_error = ((row_additions(shape.features) + 5) / 2 + 2) * kUnit * 1.01;
      const std::vector<double> expected_rstd = exact_rstd(of, 1e-5);
      std::vector<double> rstd_bound, expected_y, y_bound;
      for (const double each : expected_rstd) rstd_bound.push_back(each * rstd_error);
      const Floats x = of.x.values(), weight = of.weight.values();
      for (int64_t r = 0; r < shape.rows; ++r)
        for (int64_t c = 0; c < shape.features; ++c) {
          expected_y.push_back(double{x[static_cast<size_t>(of.index(r, c))]} *
                               expected_rstd[static_cast<size_t>(r)] * weight[static_cast<size_t>(c)]);
          // Two products, and y's own rounding.
          y_bound.push_back(std::abs(expected_y.back()) * (rstd_error + 2 * kUnit + unit(shape.dtype)) *
                            1.01);
        }
      CHECK(within(values_of(rstd), expected_rstd, rstd_bound));
      CHECK(within(values_of(y), expected_y, y_bound));
    }
}

TEST_CASE("rmsnorm's gradients are within their roundings of the double reference, on one core and on two") {
  for (const NormShape& shape : kNormShapes)
    for (const int64_t lnc : {1, 2}) {
      CAPTURE(shape.rows);
      CAPTURE(shape.features);
      CAPTURE(lnc);
      NormCase of(shape);
      // Gradients are those of the rstd that is given.
      Floats rstd;
      for (const double each : exact_rstd(of, 1e-5)) rstd.push_back(static_cast<float>(each));
      Array rstd_array({shape.rows, 1}, Dtype::float32, rstd);
      const auto [dx, dweight] = nki::simulate(rmsnorm_backward)[lnc](
          of.dy.tensor(), of.x.tensor(), of.weight.tensor(), rstd_array.tensor());
      CHECK(dx.dtype() == shape.dtype);
      CHECK(dweight.shape() == std::vector<int64_t>{shape.features});
      CHECK(dweight.dtype() == Dtype::float32);

      const Floats x = of.x.values(), dy = of.dy.values(), weight = of.weight.values();
      const auto features = static_cast<size_t>(shape.features);
      const double count = static_cast<double>(shape.features);
      std::vector<double> expected_dx, dx_bound, expected_dw(features), dw_sums(features);
      for (size_t r = 0; r < static_cast<size_t>(shape.rows); ++r) {
        double dot = 0, sum = 0;
        for (size_t c = 0; c < features; ++c) {
          const double part = double{dy[r * features + c]} * x[r * features + c] * rstd[r];
          expected_dw[c] += part;
          dw_sums[c] += std::abs(part);
          dot += part * weight[c];
          sum += std::abs(part * weight[c]);
        }
        // The dot product: 3 products a term and the additions, of terms of both signs.
        const double dot_error = (row_additions(shape.features) + 3) * kUnit * sum;
        for (size_t c = 0; c < features; ++c) {
          const double direct = double{weight[c]} * dy[r * features + c] * rstd[r];
          const double through = -double{x[r * features + c]} * rstd[r] * rstd[r] / count;
          expected_dx.push_back(direct + through * dot);
          // 1 / H and six products or additions.
          dx_bound.push_back((std::abs(through) * dot_error +
                              7 * kUnit * (std::abs(direct) + std::abs(through) * sum) +
                              unit(shape.dtype) * std::abs(expected_dx.back())) *
                             1.01);
        }
      }
      std::vector<double> dw_bound;
      // 2 products a term; additions over the tiles of rows, 128 partitions and both cores.
      const double dw_additions = static_cast<double>(shape.rows) / 128 + 1 + 128 + 1;
      for (const double sum : dw_sums) dw_bound.push_back((dw_additions + 2) * kUnit * sum * 1.01);
      CHECK(within(values_of(dx), expected_dx, dx_bound));
      CHECK(within(values_of(dweight), expected_dw, dw_bound));
    }
}

TEST_CASE("rmsnorm's gradients are its finite differences") {
  const NormShape shape = {3, 7, Dtype::float32};
  const auto loss = [](NormCase& of) {
    const Floats y = values_of(std::get<0>(
        nki::simulate(rmsnorm)[2](of.x.tensor(), of.weight.tensor(), RmsNormOptions{.eps = 0.1})));
    const Floats dy = of.dy.values();
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += double{y[i]} * double{dy[i]};
    return sum;
  };
  NormCase of(shape);
  const Tensor rstd =
      std::get<1>(nki::simulate(rmsnorm)[1](of.x.tensor(), of.weight.tensor(), RmsNormOptions{.eps = 0.1}));
  const auto [dx, dweight] =
      nki::simulate(rmsnorm_backward)[2](of.dy.tensor(), of.x.tensor(), of.weight.tensor(), rstd);
  // Numbers are below 9 and 21 of them make the loss: 2^-24 * 9 * 21 * 4 / step of noise, and the step's
  // square times third derivatives of order one.
  constexpr double kStep = 1.0 / 64, kBound = 4e-3;
  const auto check = [&](Array& array, const Floats& gradient) {
    auto* numbers = reinterpret_cast<float*>(array.tensor().allocation()->data);
    for (size_t i = 0; i < gradient.size(); ++i) {
      const float kept = numbers[i];
      numbers[i] = kept + static_cast<float>(kStep);
      const double above = loss(of);
      numbers[i] = kept - static_cast<float>(kStep);
      const double below = loss(of);
      numbers[i] = kept;
      CHECK(std::abs((above - below) / (2 * kStep) - gradient[i]) < kBound);
    }
  };
  check(of.x, values_of(dx));
  check(of.weight, values_of(dweight));
}

TEST_CASE("rmsnorm never reads past its rows and features") {
  // Views into the middle of NaNs: a 131 x 33 part of 140 x 50.
  const int64_t rows = 131, features = 33;
  const auto framed = [&](const Floats& from) {
    Floats wide(140 * 50, testing::kNaN);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < features; ++c)
        wide[static_cast<size_t>((r + 4) * 50 + c + 9)] = from[static_cast<size_t>(r * features + c)];
    return wide;
  };
  NormCase of({rows, features, Dtype::float32});
  Array wide_x({140, 50}, Dtype::float32, framed(of.x.values()));
  Array wide_dy({140, 50}, Dtype::float32, framed(of.dy.values()));
  const Tensor x = wide_x.tensor()(ds(4, rows), ds(9, features));
  const Tensor dy = wide_dy.tensor()(ds(4, rows), ds(9, features));
  for (const int64_t lnc : {1, 2}) {
    const auto [y, rstd] = nki::simulate(rmsnorm)[lnc](x, of.weight.tensor(), {});
    const auto [whole_y, whole_rstd] = nki::simulate(rmsnorm)[lnc](of.x.tensor(), of.weight.tensor(), {});
    const auto [dx, dw] = nki::simulate(rmsnorm_backward)[lnc](dy, x, of.weight.tensor(), rstd);
    const auto [whole_dx, whole_dw] =
        nki::simulate(rmsnorm_backward)[lnc](of.dy.tensor(), of.x.tensor(), of.weight.tensor(), whole_rstd);
    CHECK(values_of(y) == values_of(whole_y));
    CHECK(values_of(rstd) == values_of(whole_rstd));
    CHECK(values_of(dx) == values_of(whole_dx));
    CHECK(values_of(dw) == values_of(whole_dw));
    const Floats all_dx = values_of(dx);
    CHECK(std::none_of(all_dx.begin(), all_dx.end(), [](float each) { return std::isnan(each); }));
  }
}

TEST_CASE("rmsnorm sums the weight's gradient of bfloat16 rows in float32") {
  // 512 rows of ones: a sum in bfloat16 would stop at 256.
  Array ones({512, 2}, Dtype::bfloat16, Floats(1024, 1)), weight({2}, Dtype::bfloat16, Floats(2, 1));
  Array rstd({512, 1}, Dtype::float32, Floats(512, 1));
  for (const int64_t lnc : {1, 2}) {
    const auto [dx, dweight] =
        nki::simulate(rmsnorm_backward)[lnc](ones.tensor(), ones.tensor(), weight.tensor(), rstd.tensor());
    CHECK(dweight.dtype() == Dtype::bfloat16);
    CHECK(values_of(dweight) == Floats{512, 512});
  }
}

TEST_CASE("rmsnorm's first core alone stores the weight's gradient") {
  NormCase of({130, 1030, Dtype::float32});
  Array rstd({130, 1}, Dtype::float32, Floats(130, 1));
  nki::KernelRun run;
  nki::simulate(rmsnorm_backward)[2].run(&run, of.dy.tensor(), of.x.tensor(), of.weight.tensor(),
                                         rstd.tensor());
  const auto stores = [](const nki::CoreRecord& core) {
    return std::count_if(core.instructions.begin(), core.instructions.end(),
                         [](const nki::Instruction& each) {
                           return each.name() == "dma_copy" && each.dst.name() == "dweight";
                         });
  };
  CHECK(stores(run.cores[0]) == 3);  // 512 + 512 + 6
  CHECK(stores(run.cores[1]) == 0);
}

TEST_CASE("rmsnorm of rows of zeros is zero") {
  Array zeros({5, 9}, Dtype::float32, Floats(45, 0)), weight({9}, Dtype::float32, Floats(9, 2));
  const auto [y, rstd] = nki::simulate(rmsnorm)[2](zeros.tensor(), weight.tensor(), {.eps = 0.25});
  CHECK(values_of(y) == Floats(45, 0));
  CHECK(values_of(rstd) == Floats(5, 2));
}

TEST_CASE("rmsnorm's largest rows fit the memory of every chip") {
  const auto shaped = [](std::vector<int64_t> sizes, Dtype dtype) {
    return nki::host_tensor("x", std::move(sizes), dtype, nullptr, nullptr);
  };
  const Tensor x = shaped({300, 16384}, Dtype::float32), weight = shaped({16384}, Dtype::float32);
  for (const nki::Generation generation :
       {nki::Generation::trn1, nki::Generation::trn2, nki::Generation::trn3}) {
    const nki::RunOptions options = {.generation = generation, .mode = nki::RunMode::shapes};
    CHECK_NOTHROW(nki::simulate(rmsnorm).with(options)(x, weight, {}));
    CHECK_NOTHROW(
        nki::simulate(rmsnorm_backward).with(options)(x, x, weight, shaped({300, 1}, Dtype::float32)));
  }
}

TEST_CASE("rmsnorm names what breaks its contract") {
  const auto shaped = [](std::vector<int64_t> sizes, Dtype dtype = Dtype::float32) {
    return nki::host_tensor("x", std::move(sizes), dtype, nullptr, nullptr);
  };
  const auto forward = [](Tensor x, Tensor weight, double eps = 1e-6) -> std::string {
    try {
      nki::simulate(rmsnorm)[2].with({.mode = nki::RunMode::shapes})(x, weight, {.eps = eps});
    } catch (const ValueError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(forward(shaped({4, 8}), shaped({8})) == "");
  CHECK(forward(shaped({2, 4, 8}), shaped({8})) ==
        "rmsnorm takes x [rows, features] and weight [features], got [2, 4, 8] and [8]");
  CHECK(forward(shaped({4, 8}), shaped({1, 8})).find("got [4, 8] and [1, 8]") != std::string::npos);
  CHECK(forward(shaped({4, 8}), shaped({9})).find("got [4, 8] and [9]") != std::string::npos);
  CHECK(forward(shaped({4, 16385}), shaped({16385})) == "rmsnorm takes up to 16384 features, got 16385");
  CHECK(forward(shaped({4, 8}, Dtype::int32), shaped({8})) ==
        "rmsnorm takes floating-point numbers, got x int32 and weight float32");
  CHECK(forward(shaped({4, 8}), shaped({8}, Dtype::int8)).find("weight int8") != std::string::npos);
  CHECK(forward(shaped({4, 8}), shaped({8}), -1).find("eps has to be") != std::string::npos);
  CHECK(forward(shaped({4, 8}), shaped({8}), std::nan("")).find("eps has to be") != std::string::npos);

  const auto backward = [&](Tensor dy, Tensor rstd) -> std::string {
    try {
      nki::simulate(rmsnorm_backward)[2].with({.mode = nki::RunMode::shapes})(dy, shaped({4, 8}), shaped({8}),
                                                                              rstd);
    } catch (const ValueError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(backward(shaped({4, 8}), shaped({4, 1})) == "");
  CHECK(backward(shaped({4, 9}), shaped({4, 1})) ==
        "rmsnorm_backward: dy [4, 9] float32 has to be like x [4, 8] float32");
  CHECK(backward(shaped({4, 8}, Dtype::bfloat16), shaped({4, 1})).find("dy [4, 8] bfloat16") !=
        std::string::npos);
  CHECK(backward(shaped({4, 8}), shaped({4})) ==
        "rmsnorm_backward: rstd [4] float32 has to be [4, 1] float32, as rmsnorm gives it");
  CHECK(backward(shaped({4, 8}), shaped({4, 1}, Dtype::bfloat16)).find("rstd [4, 1] bfloat16") !=
        std::string::npos);
}

}  // namespace
}  // namespace titan::nkilib
