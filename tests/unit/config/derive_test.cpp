#include "titan/config/derive.h"

#include <doctest/doctest.h>

#include "tests/unit/config/example_tree.h"
#include "tests/unit/config/expect.h"

using namespace titan;
using namespace example;

namespace derive_test {
/// Shares names, not types, with Attention.
struct OtherAttention {
  int64_t n_heads = 0;
  int64_t extra = 5;
  Poly<Rope> rope = {};
  void describe(Fields& f) {
    f("n_heads", n_heads);
    f("extra", extra);
    f("rope", rope);
  }
};
struct OtherBlock {
  OtherAttention attention;
  void describe(Fields& f) { f("attention", attention); }
};
struct TextHeads {
  std::string n_heads;
  void describe(Fields& f) { f("n_heads", n_heads); }
};
struct OnlyKernels {
  Poly<Kernel::Config> rope = Kernel::Config{};
  void describe(Fields& f) { f("rope", rope); }
};
struct RopeItself {
  Rope rope;
  void describe(Fields& f) { f("rope", rope); }
};
enum class Color { red };
struct Colored {
  Color backend = Color::red;
  void describe(Fields& f) { f("backend", backend); }
};
struct OtherGroup {
  std::string pattern;
  int64_t extra = 4;
  void describe(Fields& f) {
    f("pattern", pattern);
    f("extra", extra);
  }
};
struct Lists {
  std::vector<Group> groups = {};
  std::vector<Poly<Rope>> ropes = {};
  void describe(Fields& f) {
    f("groups", groups);
    f("ropes", ropes);
  }
};
struct OtherLists {
  std::vector<OtherGroup> groups = {{}, {}, {}};
  std::vector<Poly<CosSinRope>> ropes = {CosSinRope{}, CosSinRope{}, CosSinRope{}};
  void describe(Fields& f) {
    f("groups", groups);
    f("ropes", ropes);
  }
};
}  // namespace derive_test

template <>
inline constexpr auto titan::names<derive_test::Color> =
    std::to_array<titan::Named<derive_test::Color>>({{"red", derive_test::Color::red}});

using namespace derive_test;

TEST_CASE("derive copies typed values of shared fields and leaves the rest at the target's defaults") {
  const auto kernel = derive<Kernel::Config>(CosSinRope{{.dim = 64, .theta = 0.1 + 0.2}});
  CHECK(kernel.dim == 64);
  CHECK(kernel.theta == 0.1 + 0.2);  // all bits, which a way through text could lose
  CHECK(kernel.lnc == 2);
}

TEST_CASE("derive copies nested structs and slots, also into another type") {
  Block block;
  block.attention.n_heads = 7;
  block.attention.rope = Kernel::Config{{{.dim = 3}}, 1};
  const auto other = derive<OtherBlock>(block);
  CHECK(other.attention.n_heads == 7);
  CHECK(other.attention.extra == 5);
  REQUIRE(other.attention.rope.get<Kernel::Config>() != nullptr);
  CHECK(other.attention.rope.get<Kernel::Config>()->lnc == 1);
}

TEST_CASE("derive copies lists of structs and of slots, also into lists of other types") {
  Lists lists;
  lists.groups = {{.pattern = "a"}, {.pattern = "b"}};
  lists.ropes = {CosSinRope{{.dim = 3}}, {}};
  const auto other = derive<OtherLists>(lists);
  REQUIRE(other.groups.size() == 2);
  CHECK(other.groups[1].pattern == "b");
  CHECK(other.groups[1].extra == 4);
  REQUIRE(other.ropes.size() == 2);
  CHECK(other.ropes[0]->dim == 3);
  CHECK_FALSE(static_cast<bool>(other.ropes[1]));
}

TEST_CASE("a slot that is empty in the source is empty in what is derived") {
  Root root;
  root.checkpointing = {};
  CHECK_FALSE(static_cast<bool>(derive<Root>(root).checkpointing));
}

TEST_CASE("derive shares nothing with its source") {
  Root root = make_root();
  Root copy = derive<Root>(root);
  copy.model.layers[0]->attention.rope->dim = 1;
  CHECK(root.model.layers[0]->attention.rope->dim == 16);
}

TEST_CASE("deltas set fields by name, and unknown ones are refused") {
  const CosSinRope rope{{.dim = 64}};
  CHECK(derive<Kernel::Config>(rope, {{"lnc", "1"}, {"dim", "32"}}).dim == 32);
  CHECK(derive<Kernel::Config>(rope, [](auto& to) { to.lnc = 4; }).lnc == 4);
  check_contains(config_error([&] { derive<Kernel::Config>(rope, {{"lcn", "1"}}); }),
                 "Kernel.Config has no field 'lcn'; did you mean lnc? It has dim, theta, lnc");
  check_contains(config_error([&] { derive<Kernel::Config>(rope, {{"lnc", "one"}}); }),
                 "Kernel.Config.lnc expects an int");
  check_contains(config_error([] { derive<Block>(Block{}, {{"attention", "x"}}); }),
                 "Block has no plain field 'attention'");
}

TEST_CASE("a shared name of another type is refused, not skipped") {
  check_contains(config_error([] { derive<TextHeads>(Attention{}); }),
                 "field 'n_heads' is a str in the one and a int in the other");
  check_contains(config_error([] { derive<RopeItself>(Attention{}); }), "field 'rope' is a ");
  check_contains(config_error([] { derive<Colored>(Attention{}); }), "field 'backend' is a ");
}

TEST_CASE("a slot takes a derived value only when its base fits") {
  check_contains(config_error([] { derive<OnlyKernels>(Attention{}); }), "CosSinRope does not fit here");
}
