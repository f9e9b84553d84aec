#include "titan/config/override.h"

#include <doctest/doctest.h>

#include "tests/unit/config/example_tree.h"
#include "tests/unit/config/expect.h"
#include "titan/config/derive.h"

using namespace titan;
using namespace example;

namespace override_test {
/// A tree below the prefix that globs may leave out.
struct Spec {
  Model model;
  void describe(Fields& f) { f("model", model); }
};
struct Trainer {
  Spec model_spec;
  void describe(Fields& f) { f("model_spec", model_spec); }
};
/// Its described base does not lie at its own address.
struct Payload {
  int64_t before[4] = {1, 2, 3, 4};
};
struct Shifted : Payload, CosSinRope {
  void describe(Fields& f) { f.base<CosSinRope>(*this); }
};

}  // namespace override_test

using override_test::Trainer;

namespace {

/// Replaces rotations by the kernel's.
Override kernel(OverrideOptions options) {
  if (options.name.empty()) options.name = "kernel";
  return override<CosSinRope>(std::move(options),
                              [](const auto& config) { return derive<Kernel::Config>(config); });
}

std::vector<std::string> apply(Root& root, std::vector<Override> overrides) {
  return apply_overrides(node_of(root), overrides);
}

Trainer deep_trainer(size_t layers) {
  Trainer trainer;
  Block block;
  trainer.model_spec.model.layers.assign(layers, Poly<Block>(block));
  return trainer;
}

}  // namespace

TEST_CASE("an override replaces every node of its type and says so") {
  Root root = make_root();
  const auto lines = apply(root, {kernel({})});
  CHECK(lines == std::vector<std::string>{
                     "[Override] kernel: model.layers.0.attention.rope CosSinRope -> Kernel.Config",
                     "[Override] kernel: model.layers.1.attention.rope CosSinRope -> Kernel.Config",
                     "[Override] kernel: model.layers.2.attention.rope CosSinRope -> Kernel.Config",
                     "Applied 3 override(s)"});
  CHECK(root.model.layers[1]->attention.rope.get<Kernel::Config>() != nullptr);
  CHECK(root.model.layers[1]->attention.rope->theta == 1e6);
}

TEST_CASE("without overrides nothing is said") {
  Root root = make_root();
  CHECK(apply(root, {}).empty());
}

TEST_CASE("subclasses match unless the override is exact") {
  Root root = make_root();
  root.model.layers[0]->attention.rope = Kernel::PlainConfig{};
  CHECK(apply(root, {kernel({.exact = true})}).back() == "Applied 2 override(s)");
  CHECK(root.model.layers[0]->attention.rope.get<Kernel::PlainConfig>() != nullptr);
  CHECK(apply(root, {kernel({})}).back() == "Applied 3 override(s)");
}

TEST_CASE("an override takes the node as its target, wherever that lies in it") {
  Root root = make_root();
  root.model.layers[0]->attention.rope = override_test::Shifted{{}, {{.dim = 5}}};
  apply(root, {kernel({})});
  CHECK(root.model.layers[0]->attention.rope.get<Kernel::Config>()->dim == 5);
}

TEST_CASE("globs match the full path and the path below model_spec.model") {
  for (const char* glob : {"layers.1[0-9].attention.rope", "model_spec.model.layers.1[0-9].attention.rope",
                           "*layers.1[0-9].attention.rope"}) {
    CAPTURE(glob);
    Trainer trainer = deep_trainer(28);
    const std::vector<Override> overrides = {kernel({.fqns = {glob}})};
    const auto lines = apply_overrides(node_of(trainer), overrides);
    CHECK(lines.size() == 11);
    check_contains(lines.front(), "model_spec.model.layers.10.attention.rope");
    check_contains(lines.at(9), "model_spec.model.layers.19.attention.rope");
  }
}

TEST_CASE("an override that matches nothing changes nothing and is no error") {
  Root root = make_root();
  CHECK(apply(root, {kernel({.fqns = {"layers.9.*"}})}).empty());
  CHECK(apply(root, {override<Group>({.name = "none"}, [](const Group& g) { return g; })}).empty());
  CHECK(root.model.layers[0]->attention.rope.get<Kernel::Config>() == nullptr);
}

TEST_CASE("a node claimed twice, or inside another claimed one, stops before anything changes") {
  Root root = make_root();
  check_contains(config_error([&] { apply(root, {kernel({.name = "a"}), kernel({.name = "b"})}); }),
                 "overrides 'a' and 'b' both claim model.layers.0.attention.rope: narrow the fqns of one");
  const Override blocks = override<Block>({.name = "blocks"}, [](const Block& block) { return block; });
  check_contains(config_error([&] { apply(root, {kernel({}), blocks}); }),
                 "both claim model.layers.0.attention.rope, inside model.layers.0: narrow");
  CHECK(root.model.layers[0]->attention.rope.get<Kernel::Config>() == nullptr);
}

TEST_CASE("claims of layers 1 and 10 do not conflict") {
  Trainer trainer = deep_trainer(12);
  const std::vector<Override> overrides = {
      override<Block>({.name = "block", .fqns = {"layers.1"}}, [](const Block& block) { return block; }),
      kernel({.fqns = {"layers.10.*"}})};
  CHECK(apply_overrides(node_of(trainer), overrides).size() == 3);
}

TEST_CASE("two overrides of one name are refused") {
  Root root = make_root();
  check_contains(config_error([&] { apply(root, {kernel({.fqns = {"x"}}), kernel({.fqns = {"y"}})}); }),
                 "two overrides are named 'kernel'");
}

TEST_CASE("an override that override() has not made is refused with its name") {
  Root root = make_root();
  Override by_hand{.name = "by_hand"};
  check_contains(config_error([&] { apply(root, {by_hand}); }), "override 'by_hand' has no target type");
  by_hand.target = &node_type<CosSinRope>;
  check_contains(config_error([&] { apply(root, {by_hand}); }), "override 'by_hand' has no function");
  by_hand.target = &node_type<Training>;
  by_hand.replace = [](void*) { return AnyNode(); };
  check_contains(config_error([&] { apply(root, {by_hand}); }),
                 "override 'by_hand' at training: the function returns nothing");
}

TEST_CASE("the root cannot be replaced") {
  Root root = make_root();
  const Override all = override<Root>({.name = "all"}, [](const Root& r) { return r; });
  check_contains(config_error([&] { apply(root, {all}); }), "override 'all' claims the whole Root");
}

TEST_CASE("a replacement must fit the slot, and a plain member takes its own type only") {
  Root root = make_root();
  const Override wrong = override<CosSinRope>({.name = "wrong"}, [](const CosSinRope&) { return Group{}; });
  check_contains(config_error([&] { apply(root, {wrong}); }),
                 "override 'wrong' at model.layers.0.attention.rope: a Group does not fit here");
  const Override same = override<Training>({.name = "same"}, [](Training t) {
    t.steps = 77;
    return t;
  });
  CHECK(apply(root, {same}).front() == "[Override] same: training Training -> Training");
  CHECK(root.training.steps == 77);
  const Override other = override<Training>({.name = "other"}, [](const Training&) { return Group{}; });
  check_contains(config_error([&] { apply(root, {other}); }), "the place holds a Training and nothing else");
}

TEST_CASE("an error of the override's function says where it happened") {
  Root root = make_root();
  const Override throws = override<CosSinRope>(
      {.name = "throws"}, [](const CosSinRope&) -> CosSinRope { throw std::runtime_error("no such core"); });
  std::string message;
  try {
    apply(root, {throws});
  } catch (const ValueError& error) {
    message = error.what();
  }
  check_contains(message, "override 'throws' at model.layers.0.attention.rope: no such core");
}
