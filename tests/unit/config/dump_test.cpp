#include "titan/config/dump.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/unit/config/example_tree.h"
#include "tests/unit/config/expect.h"
#include "titan/config/load.h"

using namespace titan;
using namespace example;

namespace {

constexpr std::array kTypes = {&node_type<Root>, &node_type<CosSinRope>, &node_type<Kernel::Config>};

std::string load_error(const char* json) {
  return config_error([&] { load_config(Json::parse(json, "file.json"), kTypes, "file.json"); });
}

Root load(const Json& json) { return *as<Root>(load_config(json, kTypes, "file.json").node()); }

}  // namespace

TEST_CASE("a tree comes back from its JSON as it was") {
  Root root = make_root();
  root.checkpointing = Budget{{.debug = true}, 0.1};
  root.model.layers[1]->attention.rope = Kernel::Config{{{.dim = 8, .theta = 0.1 + 0.2}}, 1};
  root.training.seed = 9;
  root.training.parts = {{"a"}, {}};
  root.groups = {{.pattern = "norm \"x\"\n", .lr = 1e-300}};
  const Json json = to_json(node_of(root));
  const Root back = load(Json::parse(json.dump(2), "file.json"));
  CHECK(to_json(node_of(back)) == json);
  REQUIRE(back.model.layers[1]->attention.rope.get<Kernel::Config>() != nullptr);
  CHECK(back.model.layers[1]->attention.rope.get<Kernel::Config>()->lnc == 1);
  CHECK(back.model.layers[1]->attention.rope->theta == 0.1 + 0.2);
  CHECK(back.groups.at(0).pattern == "norm \"x\"\n");
}

TEST_CASE("JSON names the types of polymorphic places and of the root") {
  const Root root = make_root();
  const Json json = to_json(node_of(root));
  CHECK(json["type"].as_string() == "Root");
  CHECK(json["checkpointing"]["type"].as_string() == "Full");
  CHECK(json["model"].find("type") == nullptr);
  CHECK(json["spare"].is_null());
  CHECK(json["model"]["layers"].at(0)["type"].as_string() == "Block");
}

TEST_CASE("a file that says little keeps the defaults elsewhere") {
  const Root root = load(
      Json::parse(R"({"type": "Root", "training": {"steps": 3}, "checkpointing": {"debug": true}})", "f"));
  CHECK(root.training.steps == 3);
  CHECK(root.training.max_norm == 1.0);
  CHECK(root.checkpointing.get<Full>()->debug);
}

TEST_CASE("what is read onto a tree keeps what it does not name, but for lists") {
  Root root;
  root.checkpointing = Budget{{.debug = true}, 0.1};
  root.spare = Kernel::Config{{{.dim = 8}}, 2};
  root.groups = {{.pattern = "x", .lr = 5}};
  const char* text =
      R"({"checkpointing": {"type": "Budget", "budget": 0.3}, "spare": {"type": "Kernel.Config",
                         "lnc": 1}, "groups": [{"pattern": "y"}]})";
  load_fields(node_of(root), Json::parse(text, "f"), "f");
  CHECK(root.checkpointing.get<Budget>()->budget == 0.3);
  CHECK(root.checkpointing->debug);
  CHECK(root.spare.get<Kernel::Config>()->lnc == 1);
  CHECK(root.spare->dim == 8);
  CHECK(root.groups.at(0).pattern == "y");
  CHECK(root.groups.at(0).lr == 1e-3);
}

TEST_CASE("what does not fit in a file is named with its path") {
  check_contains(load_error(R"({"type": "Root", "training": {"steps": "3"}})"),
                 "file.json: training.steps expects int, found a string");
  check_contains(load_error(R"({"type": "Root", "training": {"stesp": 3}})"),
                 "file.json: training Training has no field 'stesp'; did you mean steps?");
  check_contains(load_error(R"({"type": "Rot"})"),
                 "there is no config struct 'Rot' here; did you mean Root?");
  check_contains(load_error(R"({"training": {}})"), "needs a \"type\"");
  check_contains(load_error(R"({"type": 3})"), "needs a \"type\"");
  check_contains(load_error(R"({"type": "Root", "training": {"type": "Training"}})"),
                 "training Training has no field 'type'");
  check_contains(load_error("[]"), "expects an object with a \"type\", found a list");
  check_contains(load_error(R"({"type": "Root", "groups": {}})"),
                 "groups expects a list of Group, found an object");
  check_contains(load_error(R"({"type": "Root", "training": null})"),
                 "training expects an object (Training), found null");
  check_contains(load_error(R"({"type": "Root", "spare": {"type": "Root"}})"),
                 "spare a Root does not fit here");
  check_contains(load_error(R"({"type": "Root", "spare": {"type": "NkiRope"}})"),
                 "can only come from that module");
}

TEST_CASE("the text of a tree shows equal neighbours once") {
  const Root root = make_root();
  const std::string text = to_tree_text(node_of(root));
  check_contains(text, "Root\n  name: run\n");
  check_contains(text, "    layers.[0..1]: Block\n      attention:\n        n_heads: 4\n");
  check_contains(text, "    layers.2: Block\n");
  check_contains(text, "  checkpointing: Full\n    debug: false\n");
  check_contains(text, "  spare: none\n  groups: []\n");
  CHECK(text.find("layers.1") == std::string::npos);
}

TEST_CASE("a diff has a line for each difference and none for the rest") {
  Root root;
  CHECK(diff_text(node_of(root)).empty());
  root.training.steps = 3;
  root.checkpointing = Budget{{}, 0.25};
  root.name = "";
  CHECK(diff_text(node_of(root)) ==
        "name: run -> \n"
        "training.steps: 10 -> 3\n"
        "checkpointing: Full -> Budget\n"
        "checkpointing.budget: 0.5 -> 0.25\n");
  root = make_root();
  CHECK(diff_text(node_of(root)) ==
        "model.layers: 0 elements -> 3 elements\n"
        "model.layers.[0..1].attention.n_heads: 1 -> 4\n"
        "model.layers.[0..1].attention.rope.dim: 0 -> 16\n"
        "model.layers.[0..1].attention.rope.theta: 10000.0 -> 1e+06\n"
        "model.layers.2.attention.n_heads: 1 -> 2\n"
        "model.layers.2.attention.rope.dim: 0 -> 16\n"
        "model.layers.2.attention.rope.theta: 10000.0 -> 1e+06\n");
}

TEST_CASE("the help lists every field with type, value, meaning and status") {
  const Root root = make_root();
  const std::string help = help_text(node_of(root));
  check_contains(help, "  --training.steps int (10)  Steps\n");
  check_contains(help, "  --training.seed int or none (none)  Seed\n");
  check_contains(help, "  --training.gc_freq int (50)  Collections [no effect here]\n");
  check_contains(help, "  --training.cp int (1)  Context parallel [not built yet]\n");
  check_contains(help, "  --model.layers.0.attention.backend flex|sdpa (flex)  flex or sdpa\n");
  check_contains(help, "  checkpointing:full (chosen)  Inputs only\n  checkpointing:budget  A share\n");
  CHECK(help.find("layers.1") == std::string::npos);
}
