#include "titan/config/fields.h"

#include <doctest/doctest.h>

#include "tests/unit/config/example_tree.h"
#include "tests/unit/config/expect.h"
#include "titan/config/arity.h"
#include "titan/config/walk.h"

using namespace titan;
using namespace example;

TEST_CASE("a struct describes its base's members first, and knows its bases") {
  Kernel::Config config;
  const Fields fields = fields_of(node_of(config));
  REQUIRE(fields.list().size() == 3);
  CHECK(std::string(fields.list()[0].name) == "dim");
  CHECK(std::string(fields.list()[2].name) == "lnc");
  CHECK(as<Rope>(node_of(config)) == &config);
  CHECK(as<CosSinRope>(node_of(config)) == &config);
  CHECK(as<Training>(node_of(config)) == nullptr);
}

TEST_CASE("a struct without a describe of its own still derives from its base") {
  Kernel::PlainConfig config;
  CHECK(fields_of(node_of(config)).list().size() == 2);
  CHECK(as<CosSinRope>(node_of(config)) == &config);
  CHECK(as<Rope>(node_of(config)) == &config);
}

TEST_CASE("types are called what users call them") {
  CHECK(type_name(node_type<Kernel::Config>) == "Kernel.Config");
  CHECK(type_name(node_type<Rope>) == "Rope");
}

namespace fields_test {
struct Forgetful : Rope {
  int64_t told = 0;
  int64_t forgotten = 0;
  void describe(Fields& f) {
    f.base<Rope>(*this);
    f("told", told);
  }
};
}  // namespace fields_test

using fields_test::Forgetful;

TEST_CASE("two types of one name are the same only within one shared object, unless they are titan's") {
  NodeType other_module = node_type<Rope>;
  CHECK(same_type(node_type<Rope>, other_module));
  int elsewhere = 0;
  other_module.module = &elsewhere;
  CHECK_FALSE(same_type(node_type<Rope>, other_module));
}

TEST_CASE("a member that describe forgets shows in the arity") {
  CHECK(arity<Training>() == 11);
  CHECK(described_arity<Training>() == arity<Training>());
  CHECK(described_arity<Root>() == arity<Root>());
  CHECK(described_arity<Kernel::Config>() == arity<Kernel::Config>());
  CHECK(described_arity<Kernel::PlainConfig>() == arity<Kernel::PlainConfig>());
  CHECK(arity<Forgetful>() == 3);
  CHECK(described_arity<Forgetful>() == 2);
}
