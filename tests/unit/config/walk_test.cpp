#include "titan/config/walk.h"

#include <doctest/doctest.h>

#include "tests/unit/config/example_tree.h"

using namespace titan;
using namespace example;

namespace {
template <class T>
std::vector<std::string> names_of(Root& root, Match match = Match::derived) {
  std::vector<std::string> names;
  traverse<T>(root, [&](const std::string& fqn, T&) { names.push_back(fqn); }, match);
  return names;
}
}  // namespace

TEST_CASE("traverse finds a type and what derives from it, under their full names") {
  Root root = make_root();
  root.model.layers[1]->attention.rope = Kernel::Config{};
  root.spare = Rope{};
  CHECK(names_of<Rope>(root) == std::vector<std::string>{"model.layers.0.attention.rope",
                                                         "model.layers.1.attention.rope",
                                                         "model.layers.2.attention.rope", "spare"});
  CHECK(names_of<Kernel::Config>(root) == std::vector<std::string>{"model.layers.1.attention.rope"});
  CHECK(names_of<Group>(root).empty());
}

TEST_CASE("an exact traverse leaves derived types out") {
  Root root = make_root();
  root.model.layers[1]->attention.rope = Kernel::Config{};
  root.spare = Rope{};
  CHECK(names_of<Rope>(root, Match::exact) == std::vector<std::string>{"spare"});
  CHECK(names_of<CosSinRope>(root, Match::exact) ==
        std::vector<std::string>{"model.layers.0.attention.rope", "model.layers.2.attention.rope"});
}

TEST_CASE("traverse changes the tree it is given, also by what it puts into slots") {
  Root root = make_root();
  traverse<Attention>(root, [](const std::string& fqn, auto& attention) {
    if (fqn.ends_with("1.attention")) attention.rope = Kernel::Config{{{.dim = 77}}};
  });
  CHECK(root.model.layers[1]->attention.rope->dim == 77);
  CHECK(root.model.layers[0]->attention.rope->dim == 16);
  CHECK(names_of<Kernel::Config>(root).size() == 1);
}

TEST_CASE("a const tree is traversed as const, the root under the empty name") {
  const Root root = make_root();
  int visits = 0;
  traverse<Root>(root, [&](const std::string& fqn, const Root& found) {
    CHECK(fqn.empty());
    CHECK(&found == &root);
    ++visits;
  });
  CHECK(visits == 1);
}

TEST_CASE("a walk goes on inside what its visitor has put into the slot at hand") {
  Root root = make_root();
  int64_t seen = 0;
  walk(node_of(root), [&](const Place& place) {
    if (place.fqn == "model.layers.0") {
      Block other;
      other.attention.n_heads = 99;
      place.slot->assign(node_of(other));
    }
    if (place.fqn == "model.layers.0.attention") seen = as<Attention>(place.node)->n_heads;
  });
  CHECK(seen == 99);
}
