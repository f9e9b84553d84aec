#include "titan/config/override_imports.h"

#include <doctest/doctest.h>

#include "tests/unit/config/expect.h"
#include "titan/base/error.h"

using namespace titan;

TEST_CASE("an import is a module, or a function with its settings") {
  const auto imports =
      parse_override_imports({"a", R"(m.f={"x": [1,2], "y": {"z": "}"}})", "b.g", R"(c.h={})"});
  REQUIRE(imports.size() == 4);
  CHECK(imports[0] == OverrideImport{"a"});
  CHECK(imports[1].target == "m.f");
  REQUIRE(imports[1].settings);
  CHECK(imports[1].settings->dump() == R"({"x": [1, 2], "y": {"z": "}"}})");
  CHECK(imports[2] == OverrideImport{"b.g"});
  CHECK(imports[3].settings->items().empty());
  CHECK(parse_override_imports({}).empty());
  CHECK(parse_override_imports({R"(m.f={"x": "a=b"})"})[0].target == "m.f");
}

TEST_CASE("what is no object is refused with how to write it") {
  for (const char* wrong : {"m.f=", "m.f={x}", "m.f=[1]", "m.f=3", "m.f={\"a\": 1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(parse_override_imports({wrong, "other"}),
                         doctest::Contains("m.f={\"field\": value}"), ConfigError);
  }
}

TEST_CASE("broken settings are shown with the reason, long ones shortened, and a key twice is refused") {
  const auto message = [](const std::string& word) {
    return config_error([&] { parse_override_imports({word}); });
  };
  check_contains(message(R"(m.f={"a": 1, "b" 2, "c": 3})"), R"(m.f is given {"a": 1, "b" 2, "c": 3}, which)");
  check_contains(message(R"(m.f={"a": 1, "b" 2, "c": 3})"), "byte 14): parse error at line 1, column 14");
  check_contains(message("m.f=[1]"), "which is no JSON object (it is a list)");
  check_contains(message(R"(m.f={"a": 1, "a": 2})"), "the key \"a\" occurs twice");
  const std::string long_message =
      message("m.f={\"a\": \"" + std::string(195, 'x') + "ä" + std::string(100000, 'y'));
  CHECK(long_message.size() < 700);
  check_contains(long_message, "x..., which is no JSON object");
}
