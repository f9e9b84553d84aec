#include "titan/train/lr_scheduler.h"

#include <doctest/doctest.h>

#include <vector>

namespace titan {
namespace {

std::vector<double> factors(const LrScheduler& scheduler, int64_t num_steps) {
  std::vector<double> values;
  for (int64_t i = 0; i < num_steps; ++i) values.push_back(scheduler.factor(i));
  return values;
}

void check_close(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(tolerance));
}

constexpr double kExact = 1e-12;
constexpr double kFourDigits = 1e-3;  // the reference's vectors are printed with four digits

LrSchedulerConfig curve(DecayType type, int64_t warmup, std::optional<double> ratio) {
  LrSchedulerConfig config;
  config.warmup_steps = warmup;
  config.decay_ratio = ratio;
  config.decay_type = type;
  return config;
}

}  // namespace

TEST_CASE("The three decay types follow the reference's vectors") {
  check_close(factors(LrScheduler(curve(DecayType::linear, 2, 0.8), 10), 10),
              {.5, 1, 1, .875, .75, .625, .5, .375, .25, .125}, kExact);
  check_close(factors(LrScheduler(curve(DecayType::sqrt, 2, 0.8), 10), 10),
              {.5, 1, 1, .6464, .5, .3876, .2929, .2094, .134, .0646}, kFourDigits);
  check_close(factors(LrScheduler(curve(DecayType::cosine, 2, 0.8), 10), 10),
              {.5, 1, 1, .9619, .8536, .6913, .5, .3087, .1464, .0381}, kFourDigits);
}

TEST_CASE("A warm-up longer than the run is cut to it and reaches the full rate") {
  const LrScheduler scheduler(curve(DecayType::linear, 600, std::nullopt), 10);
  CHECK(scheduler.warmup_steps() == 10);
  CHECK(scheduler.decay_steps() == 0);
  check_close(factors(scheduler, 10), {.1, .2, .3, .4, .5, .6, .7, .8, .9, 1.0}, kExact);
}

TEST_CASE("Without a decay ratio the rate decays right after the warm-up") {
  check_close(factors(LrScheduler(curve(DecayType::linear, 2, std::nullopt), 6), 6), {.5, 1, 1, .75, .5, .25},
              kExact);
}

TEST_CASE("A decay ratio of 0 keeps the full rate to the end and beyond") {
  const LrScheduler scheduler(curve(DecayType::cosine, 1, 0.0), 4);
  check_close(factors(scheduler, 7), {1, 1, 1, 1, 1, 1, 1}, kExact);
}

TEST_CASE("A decay ratio of 1 with warm-up decays over what the warm-up leaves") {
  const LrScheduler scheduler(curve(DecayType::linear, 2, 1.0), 4);
  CHECK(scheduler.decay_steps() == 2);
  check_close(factors(scheduler, 4), {.5, 1, 1, .5}, kExact);
}

TEST_CASE("A warm-up of the whole run with ratio 1 has no decay and no division by zero") {
  check_close(factors(LrScheduler(curve(DecayType::linear, 4, 1.0), 4), 5), {.25, .5, .75, 1, 1}, kExact);
}

TEST_CASE("No warm-up starts at the full rate") {
  check_close(factors(LrScheduler(curve(DecayType::linear, 0, 0.5), 4), 4), {1, 1, 1, .5}, kExact);
}

TEST_CASE("The minimum factor is the floor of the decay only") {
  auto config = curve(DecayType::linear, 2, 0.8);
  config.min_lr_factor = 0.2;
  const LrScheduler scheduler(config, 10);
  CHECK(scheduler.factor(0) == doctest::Approx(0.5));
  CHECK(scheduler.factor(3) == doctest::Approx(0.2 + 0.8 * 0.875));
  CHECK(scheduler.factor(9) == doctest::Approx(0.2 + 0.8 * 0.125));
}

TEST_CASE("total_steps decouples the curve from the run, which then stays at the curve's end") {
  auto config = curve(DecayType::linear, 1, std::nullopt);
  config.total_steps = 3;
  check_close(factors(LrScheduler(config, 100), 6), {1, 1, .5, 0, 0, 0}, kExact);
  config.total_steps = 100;
  check_close(factors(LrScheduler(config, 3), 3), {1, 1, 1 - 1.0 / 99}, kExact);
}

TEST_CASE("The decay length rounds halves to even") {
  CHECK(LrScheduler(curve(DecayType::linear, 0, 0.25), 10).decay_steps() == 2);
  CHECK(LrScheduler(curve(DecayType::linear, 0, 0.75), 10).decay_steps() == 8);
}

}  // namespace titan
