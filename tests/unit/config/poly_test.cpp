#include "titan/config/poly.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/unit/config/example_tree.h"
#include "tests/unit/config/expect.h"

using namespace titan;
using namespace example;

namespace poly_test {
/// A second base in front, so that the described base does not lie at the object's address.
struct Payload {
  int64_t before[4] = {1, 2, 3, 4};
};
struct Shifted : Payload, Rope {
  void describe(Fields& f) { f.base<Rope>(*this); }
};
/// Says nothing of its base.
struct Unrelated {
  int64_t dim = 0;
  void describe(Fields& f) { f("dim", dim); }
};
}  // namespace poly_test

using namespace poly_test;

TEST_CASE("a copy of a slot shares nothing with the original") {
  Poly<Rope> a = Kernel::Config{{{.dim = 8}}};
  Poly<Rope> b = a;
  b->dim = 9;
  b.get<Kernel::Config>()->lnc = 1;
  CHECK(a->dim == 8);
  CHECK(a.get<Kernel::Config>()->lnc == 2);
  a = b;
  CHECK(a->dim == 9);
  const Poly<Rope> moved = std::move(b);
  CHECK(moved->dim == 9);
  CHECK_FALSE(static_cast<bool>(b));
}

TEST_CASE("a slot gives its value back as what it is, and only as that") {
  Poly<Rope> slot = CosSinRope{};
  CHECK(slot.get<CosSinRope>() != nullptr);
  CHECK(slot.get<Rope>() != nullptr);
  CHECK(slot.get<Kernel::Config>() == nullptr);
}

TEST_CASE("a base that is not at the front of its struct is found in copies too") {
  Poly<Rope> slot = Shifted{{}, {.dim = 5}};
  Poly<Rope> copy = slot;
  copy->dim = 6;
  CHECK(slot->dim == 5);
  CHECK(copy.get<Shifted>()->dim == 6);
  Poly<Rope> third;
  third.assign(copy.node());
  CHECK(third->dim == 6);
  CHECK(third.get<Shifted>()->before[3] == 4);
}

TEST_CASE("a slot refuses a value of another base and keeps what it has") {
  Poly<Rope> slot = CosSinRope{{.dim = 3}};
  Unrelated other;
  check_contains(config_error([&] { slot.assign(node_of(other)); }),
                 "Unrelated does not fit here: it is not derived from Rope");
  CHECK(slot->dim == 3);
  CHECK(slot.get<CosSinRope>() != nullptr);
}

TEST_CASE("a slot can be assigned a part of its own value") {
  Poly<Rope> slot = CosSinRope{{.dim = 3}};
  slot.assign(slot.node());
  CHECK(slot->dim == 3);
}

TEST_CASE("reading an empty slot is a fault of the program") {
  Poly<Rope> slot;
  CHECK_THROWS_AS(slot->dim = 1, std::logic_error);
}

TEST_CASE("a config that nothing can build says what is missing") {
  const Poly<Rope> slot = CosSinRope{};
  std::string message;
  try {
    slot.build();
  } catch (const ValueError& error) {
    message = error.what();
  }
  check_contains(message, "nothing here can build a CosSinRope");
}
