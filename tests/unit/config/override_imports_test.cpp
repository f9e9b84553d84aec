#include "titan/config/override_imports.h"

#include <doctest/doctest.h>

#include "titan/base/error.h"

using namespace titan;

TEST_CASE("an object that was divided at its commas is one import's settings") {
  const auto imports =
      parse_override_imports({"a", R"(m.f={"x": [1)", "2]", R"("y": {"z": "}"}})", "b.g", R"(c.h={})"});
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
