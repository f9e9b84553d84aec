#include "titan/config/validate.h"

#include <doctest/doctest.h>

#include "tests/unit/config/example_tree.h"
#include "tests/unit/config/expect.h"
#include "titan/train/trainer_config.h"

using namespace titan;
using namespace example;

namespace validate_test {
/// Needs the rest of the run to judge itself.
struct NeedsLength : Rope {
  void describe(Fields& f) { f.base<Rope>(*this); }
  void validate(const TrainerConfig& config) const {
    if (config.training.seq_len % dim != 0)
      throw ValueError("length {} does not divide by {}", config.training.seq_len, dim);
  }
};
}  // namespace validate_test

using validate_test::NeedsLength;

TEST_CASE("defaults pass the checks") {
  Root root;
  check_status(node_of(root));
  validate(node_of(root));
}

TEST_CASE("a setting that is not built yet stops, its default passes") {
  Root root;
  root.training.cp = 2;
  check_contains(config_error([&] { check_status(node_of(root)); }),
                 "training.cp = 2 is not built yet (default: 1; Context parallel)");
  root.training.cp = 1;
  root.checkpointing = Recorded{};
  check_contains(config_error([&] { check_status(node_of(root)); }),
                 "checkpointing = Recorded is not built yet");
}

TEST_CASE("a setting without effect only warns") {
  Root root;
  root.training.gc_freq = 3;
  check_status(node_of(root));
}

TEST_CASE("a struct's own check runs wherever it lies, with its path before the message") {
  Root root;
  root.training.steps = 0;
  CHECK(config_error([&] { validate(node_of(root)); }) == "training: steps must be at least 1, got 0");
}

TEST_CASE("a check against the whole run sees it, and keeps the kind of its error") {
  Root root;
  root.spare = NeedsLength{{.dim = 384}};
  TrainerConfig trainer;
  trainer.training.seq_len = 768;
  validate(node_of(root), &trainer);
  trainer.training.seq_len = 1000;
  std::string message;
  try {
    validate(node_of(root), &trainer);
  } catch (const ConfigError&) {
    FAIL("a ValueError of the check's became a ConfigError");
  } catch (const ValueError& error) {
    message = error.what();
  }
  CHECK(message == "spare: length 1000 does not divide by 384");
}
