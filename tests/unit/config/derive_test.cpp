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
}  // namespace derive_test

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
}

TEST_CASE("a shared name of another type is refused, not skipped") {
  check_contains(config_error([] { derive<TextHeads>(Attention{}); }),
                 "field 'n_heads' is a str in the one and a int in the other");
}

TEST_CASE("a slot takes a derived value only when its base fits") {
  check_contains(config_error([] { derive<OnlyKernels>(Attention{}); }), "CosSinRope does not fit here");
}
