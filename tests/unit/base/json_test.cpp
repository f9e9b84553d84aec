#include "titan/base/json.h"

#include <doctest/doctest.h>

#include "titan/base/error.h"

using titan::Json;
using titan::ValueError;

TEST_CASE("a JSON text reads back as it was written, members in order") {
  const std::string text =
      R"({"b": 1, "a": [true, null, 2.5, -7, 1e-08, 3.0], "s": "é\n\"", "o": {}, "big": 9007199254740993})";
  const Json value = Json::parse(text, "text");
  CHECK(value.dump() == text);
  CHECK(value["big"].as_int() == 9007199254740993);
  CHECK(Json::parse(value.dump(2), "text") == value);
  CHECK(value["a"].at(2).as_double() == 2.5);
  CHECK(value.find("zz") == nullptr);
}

TEST_CASE("what is wrong with a JSON text is said with its name and place") {
  CHECK_THROWS_WITH_AS(Json::parse("{\"a\": 1", "x.json"),
                       doctest::Contains("x.json is not valid JSON (byte 8)"), ValueError);
  CHECK_THROWS_WITH_AS(Json::parse("{\"a\": 1, \"a\": 2}", "x.json"),
                       doctest::Contains("the key \"a\" occurs twice"), ValueError);
  CHECK_THROWS_AS(Json::parse(std::string(100000, '['), "deep"), ValueError);
  CHECK_THROWS_WITH_AS(Json::parse("3", "x").as_string(), "expected a string, found an integer", ValueError);
  CHECK_THROWS_WITH_AS(Json::parse("{}", "x")["k"], "the key \"k\" is missing", ValueError);
}
