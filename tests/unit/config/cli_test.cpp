#include "titan/config/cli.h"

#include <doctest/doctest.h>

#include "tests/unit/config/example_tree.h"
#include "tests/unit/config/expect.h"

using namespace titan;
using namespace example;

namespace {

Root set(std::vector<std::string> words) {
  Root root = make_root();
  set_from_command_line(node_of(root), words);
  return root;
}

std::string refusal(std::vector<std::string> words) {
  return config_error([&] { set(std::move(words)); });
}

}  // namespace

TEST_CASE("values are set with a space or an equals sign, and the last one wins") {
  CHECK(set({"--training.steps", "3"}).training.steps == 3);
  CHECK(set({"--training.steps=4"}).training.steps == 4);
  CHECK(set({"--training.steps=4", "--training.steps", "5"}).training.steps == 5);
  CHECK(set({"--training.steps", "-1"}).training.steps == -1);
  CHECK(set({"--name", "a=b"}).name == "a=b");
  CHECK(set({"--name=--x"}).name == "--x");
  CHECK(set({"--name="}).name.empty());
  CHECK(set({"--training.components", "a,b"}).training.components == std::vector<std::string>{"a", "b"});
}

TEST_CASE("hyphens and underscores are alike in names") {
  CHECK(set({"--training.max-norm", "2"}).training.max_norm == 2.0);
  CHECK(set({"--training.gc-freq=7"}).training.gc_freq == 7);
}

TEST_CASE("a bool is set by its name and cleared by its no, in every spelling") {
  CHECK(set({"--training.deterministic"}).training.deterministic);
  for (const char* no :
       {"--training.no_deterministic", "--training.no-deterministic", "--no-training.deterministic"}) {
    CAPTURE(no);
    CHECK_FALSE(set({"--training.deterministic", no}).training.deterministic);
  }
  CHECK(set({"--training.fused"}).training.fused == true);
  CHECK(set({"--training.no_fused"}).training.fused == false);
  CHECK_FALSE(set({"--training.fused", "--training.fused=none"}).training.fused.has_value());
}

TEST_CASE("a value for a bool is refused with what to type") {
  const char* expected =
      "--training.deterministic is a flag and takes no value: type --training.deterministic for true, "
      "--training.no_deterministic for false";
  check_contains(refusal({"--training.deterministic=False"}), expected);
  check_contains(refusal({"--training.deterministic", "true"}), expected);
}

TEST_CASE("only a bool has a no") {
  check_contains(refusal({"--training.no_steps"}), "unknown option --training.no_steps");
}

TEST_CASE("an unknown name is answered with the nearest") {
  check_contains(refusal({"--training.step", "3"}),
                 "unknown option --training.step; did you mean --training.steps?");
  check_contains(refusal({"--trainig.steps", "3"}), "did you mean --training.steps?");
  check_contains(refusal({"--gc_freq", "3"}), "did you mean --training.gc_freq?");
  check_contains(refusal({"--training.steps.x", "3"}), "unknown option --training.steps.x");
}

TEST_CASE("a section in the place of a field lists what can be set") {
  check_contains(refusal({"--training", "3"}),
                 "--training is a section; set what is in it: --training.steps, ");
  check_contains(refusal({"--spare", "3"}), "--spare (Rope or derived) cannot be set on the command line");
}

TEST_CASE("a missing value is noticed before the next option is taken for it") {
  check_contains(refusal({"--training.steps"}), "--training.steps needs a value (int)");
  check_contains(refusal({"--training.steps", "--training.deterministic"}),
                 "--training.steps needs a value (int), but");
}

TEST_CASE("wrong values name the option") {
  check_contains(refusal({"--training.steps", "3x"}), "--training.steps expects an int; got '3x'");
  check_contains(refusal({"--model.layers.0.attention.backend=flx"}), "did you mean flex?");
}

TEST_CASE("a word that is no option is refused") {
  check_contains(refusal({"steps"}), "unexpected 'steps'");
  check_contains(refusal({"training.steps=3"}), "did you mean --training.steps=3?");
}

TEST_CASE("alternatives of a section are chosen in three spellings, before fields are set") {
  CHECK(set({"checkpointing:budget"}).checkpointing.get<Budget>() != nullptr);
  CHECK(set({"--checkpointing", "budget"}).checkpointing.get<Budget>() != nullptr);
  CHECK(set({"--checkpointing=budget"}).checkpointing.get<Budget>() != nullptr);
  const Root root = set({"--checkpointing.budget", "0.25", "checkpointing:budget", "--training.steps", "3"});
  CHECK(root.checkpointing.get<Budget>()->budget == 0.25);
  CHECK(root.training.steps == 3);
}

TEST_CASE("choosing what is there already keeps its values") {
  Root root = make_root();
  root.checkpointing = Budget{{.debug = true}, 0.125};
  const std::vector<std::string> words = {"checkpointing:budget"};
  set_from_command_line(node_of(root), words);
  CHECK(root.checkpointing.get<Budget>()->budget == 0.125);
}

TEST_CASE("unknown alternatives and sections are answered with the nearest") {
  check_contains(refusal({"checkpointing:ful"}),
                 "checkpointing can be full, budget, recorded; got 'ful'; did you mean full?");
  check_contains(refusal({"chekpointing:full"}),
                 "unknown section 'chekpointing' in 'chekpointing:full'; did you mean checkpointing?");
  check_contains(refusal({"training:full"}), "training offers no alternatives");
  check_contains(refusal({"checkpointing:recorded"}), "checkpointing:recorded is not built yet");
}

TEST_CASE("a value that looks like an alternative stays a value") {
  const Root root = set({"--name", "checkpointing:budget"});
  CHECK(root.name == "checkpointing:budget");
  CHECK(root.checkpointing.get<Full>() != nullptr);
}

TEST_CASE("list elements are set one by one or by a glob") {
  const Root one = set({"--model.layers.1.attention.n_heads", "9"});
  CHECK(one.model.layers[0]->attention.n_heads == 4);
  CHECK(one.model.layers[1]->attention.n_heads == 9);
  const Root some = set({"--model.layers.[0-1].attention.backend=sdpa"});
  CHECK(some.model.layers[1]->attention.backend == Backend::sdpa);
  CHECK(some.model.layers[2]->attention.backend == Backend::flex);
  check_contains(refusal({"--model.layers.7.attention.n_heads", "9"}), "unknown option");
}

TEST_CASE("options of the program are taken out of the words") {
  std::vector<std::string> words = {"--module", "a", "--x", "1", "--module=b", "--json", "--json"};
  CHECK(take_option(words, "module") == "b");
  CHECK(take_flag(words, "json"));
  CHECK_FALSE(take_flag(words, "json"));
  CHECK(words == std::vector<std::string>{"--x", "1"});
  words = {"--module"};
  check_contains(config_error([&] { take_option(words, "module"); }), "--module needs a value");
}
