#include "titan/config/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/unit/config/example_tree.h"
#include "tests/unit/config/expect.h"
#include "titan/config/locate.h"

using namespace titan;
using namespace example;

namespace {

Located leaf(Training& training, std::string_view name) { return locate(node_of(training), name).at(0); }

/// Sets a field from text and gives its text back.
std::string round_trip(std::string_view name, std::string_view text) {
  Training training;
  const Located place = leaf(training, name);
  set_text(*place.type, place.member, text);
  return to_text(*place.type, place.member);
}

std::string refusal(std::string_view name, std::string_view text) {
  Training training;
  const Located place = leaf(training, name);
  const std::string before = to_text(*place.type, place.member);
  const std::string message = config_error([&] { set_text(*place.type, place.member, text); });
  CHECK(to_text(*place.type, place.member) == before);
  return message;
}

}  // namespace

TEST_CASE("integers are read whole and in range") {
  CHECK(round_trip("steps", "-5") == "-5");
  CHECK(round_trip("steps", "+5") == "5");
  CHECK(round_trip("steps", "9223372036854775807") == "9223372036854775807");
  check_contains(refusal("steps", "9223372036854775808"), "out of range");
  for (const char* wrong : {"", "3x", "3.5", "1e3", " 3", "0x10", "+-3", "++3", "-"}) {
    CAPTURE(wrong);
    check_contains(refusal("steps", wrong), "expects an int; got '");
  }
}

TEST_CASE("floats are read whole and in range, and keep their value") {
  CHECK(round_trip("max_norm", "1e-8") == "1e-08");
  CHECK(round_trip("max_norm", "3") == "3.0");
  CHECK(round_trip("max_norm", "0.1") == "0.1");
  CHECK(round_trip("max_norm", "inf") == "inf");
  CHECK(round_trip("max_norm", "-inf") == "-inf");
  check_contains(refusal("max_norm", "1e999"), "out of range");
  for (const char* wrong : {"", "1,5", "0.1f", "nan", "1e", " 1"}) {
    CAPTURE(wrong);
    check_contains(refusal("max_norm", wrong), "expects a float; got '");
  }
}

TEST_CASE("lists take commas") {
  CHECK(round_trip("components", "a, b,c") == "a,b,c");
  CHECK(round_trip("components", "") == "");
  CHECK(round_trip("sizes", "1,-2") == "1,-2");
  CHECK(round_trip("betas", "0.5,1") == "0.5,1.0");
  CHECK(round_trip("parts", "a,b;c") == "a,b;c");
  check_contains(refusal("components", "a,,b"), "empty one");
  check_contains(refusal("sizes", "1,x"), "expects an int; got 'x'");
}

TEST_CASE("the commas of a JSON object divide no list, and its text stays as it is") {
  Training training;
  const Located place = leaf(training, "components");
  const auto parts = [&](std::string_view text) {
    set_text(*place.type, place.member, text);
    return training.components;
  };
  using Parts = std::vector<std::string>;
  CHECK(parts(R"(a, f={"x": "1, },,\" {", "y": [{}, 2]} ,b)") ==
        Parts{"a", R"(f={"x": "1, },,\" {", "y": [{}, 2]})", "b"});
  CHECK(parts(R"(f={"x" 1, 2,b)") == Parts{R"(f={"x" 1, 2,b)"});
  CHECK(parts(R"(f={"x, 2,b)") == Parts{R"(f={"x, 2,b)"});
  CHECK(parts("a},\"b,c\"") == Parts{"a}", "\"b", "c\""});
  // As many as a test that reads them again and again at each comma would not survive.
  std::string many = "f={\"x\": [0";
  for (int i = 0; i < 1000000; ++i) many += ",1";
  CHECK(parts(many + "]}") == Parts{many + "]}"});
}

TEST_CASE("an optional is none or its type") {
  CHECK(round_trip("seed", "none") == "none");
  CHECK(round_trip("seed", "None") == "none");
  CHECK(round_trip("seed", "7") == "7");
  check_contains(refusal("seed", "x"), "expects an int");
}

TEST_CASE("a wrong value of an optional that holds one leaves it") {
  Training training;
  training.seed = 3;
  const Located place = leaf(training, "seed");
  config_error([&] { set_text(*place.type, place.member, "x"); });
  CHECK(training.seed == 3);
}

TEST_CASE("an enum is one of its words, and the nearest is named") {
  Attention attention;
  const Located place = locate(node_of(attention), "backend").at(0);
  set_text(*place.type, place.member, "sdpa");
  CHECK(attention.backend == Backend::sdpa);
  const std::string message = config_error([&] { set_text(*place.type, place.member, "flx"); });
  check_contains(message, "expects one of flex, sdpa; got 'flx'; did you mean flex?");
}

TEST_CASE("JSON keeps types: a wrong one is refused by name") {
  Training training;
  const auto set = [&](std::string_view name, const char* json) {
    const Located place = leaf(training, name);
    set_json(*place.type, place.member, Json::parse(json, "test"));
  };
  set("steps", "12");
  set("max_norm", "2");
  set("seed", "5");
  set("betas", "[1, 0.5]");
  set("parts", R"([["a"], ["b", "c"]])");
  CHECK(training.steps == 12);
  CHECK(training.max_norm == 2.0);
  CHECK(training.seed == 5);
  CHECK(training.betas == std::vector<double>{1, 0.5});
  CHECK(training.parts.at(1).at(1) == "c");
  set("seed", "null");
  CHECK_FALSE(training.seed.has_value());
  check_contains(config_error([&] { set("steps", "1.5"); }), "expects int, found a number");
  check_contains(config_error([&] { set("steps", "\"3\""); }), "expects int, found a string");
  check_contains(config_error([&] { set("components", "\"a\""); }), "expects list of str, found a string");
  check_contains(config_error([&] { set("deterministic", "1"); }), "expects bool, found an integer");
}

TEST_CASE("infinity survives JSON, which has no number for it") {
  Training training;
  training.max_norm = std::numeric_limits<double>::infinity();
  const Located place = leaf(training, "max_norm");
  const Json json = to_json(*place.type, place.member);
  training.max_norm = 0;
  set_json(*place.type, place.member, Json::parse(json.dump(), "test"));
  CHECK(std::isinf(training.max_norm));
}
