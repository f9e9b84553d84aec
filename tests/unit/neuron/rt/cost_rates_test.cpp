#include <doctest/doctest.h>

#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "titan/neuron/rt/cost.h"

using namespace titan::neuron;

namespace {

constexpr DeviceDtype kDtypes[] = {DeviceDtype::float32, DeviceDtype::bfloat16, DeviceDtype::float16,
                                   DeviceDtype::float8,  DeviceDtype::int32,    DeviceDtype::int16,
                                   DeviceDtype::int8,    DeviceDtype::boolean,  DeviceDtype::complex64};

bool has_two_bytes(DeviceDtype dtype) { return element_bytes(dtype) == 2; }

/// Of one physical core, FLOP/s.
double documented_matmul(DeviceDtype dtype) {
  if (dtype == DeviceDtype::bfloat16 || dtype == DeviceDtype::float16) return 79e12;
  return dtype == DeviceDtype::float8 ? 158e12 : 20e12;
}

/// Seconds of a thousand billion units of everything.
EngineTimes times_at(DeviceDtype dtype, int64_t lnc) {
  const Work work = {
      .dtype = dtype, .bytes = 1e12, .flops = 1e12, .vector_elements = 1e12, .scalar_elements = 1e12};
  return times_of(work, Rates(lnc));
}

}  // namespace

TEST_CASE("a physical core has the documented rates at every dtype") {
  const Rates rates(1);
  for (const DeviceDtype dtype : kDtypes) {
    INFO(static_cast<int>(dtype));
    CHECK(rates.matmul_flops(dtype) == documented_matmul(dtype));
    CHECK(rates.vector_elements(dtype) == doctest::Approx((has_two_bytes(dtype) ? 4 : 1) * 122.88e9));
  }
  CHECK(rates.scalar_elements() == doctest::Approx(153.6e9));
  CHECK(rates.hbm_bytes() == doctest::Approx(362.5e9));
  CHECK(rates.link_bytes() == doctest::Approx(160e9));
}

TEST_CASE("a logical core of two physical ones takes half the time, every class at every dtype") {
  const std::string_view operators[] = {"aten::mm",     "titan::attention", "titan::linear_cross_entropy",
                                        "aten::add",    "aten::exp",        "titan::rms_norm",
                                        "aten::sum",    "aten::embedding",  "aten::clone",
                                        "titan::adamw_"};
  for (const DeviceDtype dtype : kDtypes) {
    // A shape that all of them take.
    const std::vector<TensorShape> inputs(4, {dtype, {2, 8, 4, 8}});
    const std::vector<TensorShape> outputs(2, {dtype, {2, 8, 4, 8}});
    for (const std::string_view name : operators) {
      INFO(name << " " << static_cast<int>(dtype));
      const Work work = work_of(name, inputs, outputs);
      const EngineTimes one = times_of(work, Rates(1)), two = times_of(work, Rates(2));
      CHECK(one.longest() > 0);
      CHECK(one.tensor == doctest::Approx(2 * two.tensor));
      CHECK(one.vector == doctest::Approx(2 * two.vector));
      CHECK(one.scalar == doctest::Approx(2 * two.scalar));
      CHECK(one.hbm == doctest::Approx(2 * two.hbm));
    }
  }
  CHECK(Rates(2).link_bytes() == 2 * Rates(1).link_bytes());
}

TEST_CASE("work divided by the rate of its dtype is each engine's time") {
  for (const DeviceDtype dtype : kDtypes) {
    for (const int64_t lnc : {1, 2}) {
      const EngineTimes times = times_at(dtype, lnc);
      const double cores = static_cast<double>(lnc);
      CHECK(times.tensor == doctest::Approx(1e12 / documented_matmul(dtype) / cores));
      CHECK(times.vector == doctest::Approx(1e12 / 122.88e9 / (has_two_bytes(dtype) ? 4 : 1) / cores));
      CHECK(times.scalar == doctest::Approx(1e12 / 153.6e9 / cores));
      CHECK(times.hbm == doctest::Approx(1e12 / 362.5e9 / cores));
      CHECK(times.link == 0);
    }
  }
}

TEST_CASE("a sum of times adds engine by engine, and takes as long as the busiest") {
  EngineTimes total = {.tensor = 1, .vector = 2, .scalar = 3, .hbm = 4, .link = 5};
  CHECK(total.longest() == 5);
  total += {.tensor = 10, .vector = 20, .scalar = 30, .hbm = 40, .link = 1};
  CHECK(total.tensor == 11);
  CHECK(total.vector == 22);
  CHECK(total.scalar == 33);
  CHECK(total.hbm == 44);
  CHECK(total.link == 6);
  CHECK(total.longest() == 44);
  CHECK(EngineTimes{.tensor = 7, .vector = 1}.longest() == 7);
  CHECK(EngineTimes{.vector = 7, .scalar = 1}.longest() == 7);
  CHECK(EngineTimes{.scalar = 7, .hbm = 1}.longest() == 7);
}

TEST_CASE("a logical core has one or two physical ones") {
  CHECK_THROWS_AS(Rates(0), std::logic_error);
  CHECK_THROWS_AS(Rates(3), std::logic_error);
}
