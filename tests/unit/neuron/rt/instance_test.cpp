#include "titan/neuron/rt/instance.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "titan/base/error.h"

using namespace titan;
using titan::neuron::Instance;

namespace {

/// The machine that these variables describe; all others are unset.
Instance machine(const std::map<std::string, std::string>& variables) {
  for (const char* name : {"NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES",
                           "TITAN_NEURON_HBM_GIB"}) {
    const auto given = variables.find(name);
    given == variables.end() ? ::unsetenv(name) : ::setenv(name, given->second.c_str(), 1);
  }
  return Instance::from_env();
}

std::vector<int64_t> visible(const std::string& cores, const std::string& lnc = "2") {
  return machine({{"NEURON_RT_VISIBLE_CORES", cores}, {"NEURON_LOGICAL_NC_CONFIG", lnc}}).visible_cores;
}

constexpr int64_t kGib = int64_t{1} << 30;

}  // namespace

TEST_CASE("the machine has 64 cores of 24 GiB at LNC 2 and 128 of 12 GiB at LNC 1") {
  for (const Instance& two : {machine({}), machine({{"NEURON_LOGICAL_NC_CONFIG", "2"}})}) {
    CHECK(two.num_cores() == 64);
    CHECK(two.visible_cores.size() == 64);
    CHECK(two.hbm_bytes == 24 * kGib);
    CHECK(two.peak_flops() == 158e12);
    CHECK(two.chip_of(3) == 0);
    CHECK(two.chip_of(63) == 15);
    CHECK(two.core_of(63, 64) == 63);
  }
  const Instance one = machine({{"NEURON_LOGICAL_NC_CONFIG", "1"}});
  CHECK(one.num_cores() == 128);
  CHECK(one.hbm_bytes == 12 * kGib);
  CHECK(one.peak_flops() == 79e12);
  CHECK(one.chip_of(7) == 0);
  CHECK(one.core_of(127, 128) == 127);
}

TEST_CASE("an LNC other than 1 and 2 is refused with what is allowed") {
  for (const char* wrong : {"0", "3", "4", "-1", "two", "1 ", "2.0", "02"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(machine({{"NEURON_LOGICAL_NC_CONFIG", wrong}}),
                         doctest::Contains((std::string("NEURON_LOGICAL_NC_CONFIG must be 1 or 2 (physical "
                                                        "NeuronCores of a logical one; 2 when unset), got ") +
                                            wrong)
                                               .c_str()),
                         ConfigError);
  }
}

TEST_CASE("visible cores are ranges and lists whose order ranks follow") {
  CHECK(visible("5") == std::vector<int64_t>{5});
  CHECK(visible("0-3") == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(visible("7-7, 2 ,5-6") == std::vector<int64_t>{7, 2, 5, 6});
  CHECK(visible("127,0", "1") == std::vector<int64_t>{127, 0});
  const Instance instance = machine({{"NEURON_RT_VISIBLE_CORES", "63,4-5"}});
  CHECK(instance.core_of(0, 3) == 63);
  CHECK(instance.core_of(2, 3) == 5);
}

TEST_CASE("a list of visible cores without sense is refused, with the cores there are") {
  const std::map<std::string, std::string> reasons = {
      {"", "names no core"},
      {" ", "names no core"},
      {"0,,1", "missing beside a comma"},
      {"0,", "missing beside a comma"},
      {"3-1", "runs backwards"},
      {"0-3,2", "core 2 is named twice"},
      {"64", "there is no core 64"},
      {"60-64", "there is no core 64"},
      {"0-9223372036854775807", "there is no core"},
      {"99999999999999999999", "is no core"},
      {"-1", "'-1' is no core"},
      {"1-", "'1-' is no core"},
      {"1-2-3", "is no core"},
      {"1.5", "is no core"},
      {"all", "'all' is no core"},
      {"0x3", "is no core"},
  };
  for (const auto& [text, reason] : reasons) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(visible(text), doctest::Contains(("NEURON_RT_VISIBLE_CORES=" + text + ": ").c_str()),
                         ConfigError);
    CHECK_THROWS_WITH_AS(visible(text), doctest::Contains(reason.c_str()), ConfigError);
    CHECK_THROWS_WITH_AS(visible(text), doctest::Contains("logical cores 0-63 at LNC 2"), ConfigError);
  }
  CHECK_THROWS_WITH_AS(visible("128", "1"), doctest::Contains("logical cores 0-127 at LNC 1"), ConfigError);
}

TEST_CASE("a number of cores means the first ones, and gives way to a list of cores") {
  CHECK(machine({{"NEURON_RT_NUM_CORES", "3"}}).visible_cores == std::vector<int64_t>{0, 1, 2});
  CHECK(machine({{"NEURON_RT_NUM_CORES", "0"}}).visible_cores.size() == 64);
  const Instance both = machine({{"NEURON_RT_NUM_CORES", "1"}, {"NEURON_RT_VISIBLE_CORES", "8,9"}});
  CHECK(both.visible_cores == std::vector<int64_t>{8, 9});
  for (const char* wrong : {"65", "-1", "x", "1.5", "1,2"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(machine({{"NEURON_RT_NUM_CORES", wrong}}),
                         doctest::Contains("NEURON_RT_NUM_CORES must be a number of cores from 1 to 64"),
                         ConfigError);
  }
}

TEST_CASE("a core's capacity is given in GiB, fractions allowed, and nonsense is refused") {
  CHECK(machine({{"TITAN_NEURON_HBM_GIB", "0.5"}}).hbm_bytes == kGib / 2);
  CHECK(machine({{"TITAN_NEURON_HBM_GIB", "96"}}).hbm_bytes == 96 * kGib);
  for (const char* wrong :
       {"0", "-1", "96.001", "1e300", "1e-12", "nan", "inf", "-nan", "12GiB", "much", " "}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(
        machine({{"TITAN_NEURON_HBM_GIB", wrong}}),
        doctest::Contains((std::string("at most the 96 of a chip, got ") + wrong + ";").c_str()),
        ConfigError);
  }
}

TEST_CASE("more ranks than cores are refused on every rank alike, with what to do") {
  const auto message = [](const Instance& instance, int64_t rank, int64_t ranks) {
    try {
      instance.core_of(rank, ranks);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const Instance two = machine({});
  const std::string refusal = message(two, 0, 65);
  CHECK(refusal == message(two, 64, 65));
  CHECK(refusal ==
        "65 ranks on this machine need a logical core each, but the emulated trn2.48xlarge has 64 at LNC 2. "
        "Start at most 64 (--nproc_per_node), or set NEURON_LOGICAL_NC_CONFIG=1, which gives 128 logical "
        "cores of half the HBM");
  const std::string one = message(machine({{"NEURON_LOGICAL_NC_CONFIG", "1"}}), 0, 129);
  CHECK(
      one ==
      "129 ranks on this machine need a logical core each, but the emulated trn2.48xlarge has 128 at LNC 1. "
      "Start at most 128 (--nproc_per_node)");
  const std::string few = message(machine({{"NEURON_RT_VISIBLE_CORES", "4-6"}}), 3, 4);
  CHECK(few.find("has 64 at LNC 2, of which 3 are visible. Start at most 3") != std::string::npos);
  CHECK(few.find("NEURON_RT_VISIBLE_CORES") != std::string::npos);
  CHECK(few.find("NEURON_LOGICAL_NC_CONFIG") == std::string::npos);  // the list would hide as many at LNC 1
}
