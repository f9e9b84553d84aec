#include "titan/checkpoint/checkpoint_config.h"

#include <doctest/doctest.h>

#include "tests/unit/checkpoint/checkpoint_files.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

/// The message of the ConfigError for the change applied to a config that works; "" when there is none.
template <class Change>
std::string config_error_of(Change change) {
  CheckpointConfig config;
  config.enable = true;
  config.last_save_in_hf = true;
  change(config);
  try {
    config.validate();
    config.validate_run(10, "/assets");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Hugging Face loading and saving is accepted") {
  CHECK(config_error_of([](CheckpointConfig&) {}) == "");
  CHECK(config_error_of([](CheckpointConfig& c) { c.initial_load_in_hf = true; }) == "");
  CHECK(config_error_of([](CheckpointConfig& c) {
          c.initial_load_in_hf = c.initial_load_in_hf_quantized = true;
          c.initial_load_path = "/weights";
        }) == "");
  CHECK(config_error_of([](CheckpointConfig& c) { c.interval = 10; }) == "");
  CHECK(config_error_of([](CheckpointConfig& c) {
          c.load_only = true;
          c.last_save_in_hf = false;
          c.interval = 1;
        }) == "");
}

TEST_CASE("nothing is asked of a section that is off, but an interval of at least 1") {
  CHECK(config_error_of([](CheckpointConfig& c) { c = {}; }) == "");
  CHECK(contains(config_error_of([](CheckpointConfig& c) {
                   c = {};
                   c.interval = 0;
                 }),
                 "checkpoint.interval must be at least 1 (given: 0)"));
}

TEST_CASE("fields that contradict one another are named") {
  CHECK(contains(config_error_of([](CheckpointConfig& c) { c.folder = ""; }), "checkpoint.folder is empty"));
  CHECK(contains(config_error_of([](CheckpointConfig& c) { c.last_save_model_only = false; }),
                 "it needs checkpoint.last_save_model_only"));
  CHECK(contains(config_error_of([](CheckpointConfig& c) {
                   c.initial_load_in_hf = true;
                   c.initial_load_model_only = false;
                 }),
                 "it needs checkpoint.initial_load_model_only"));
  CHECK(contains(config_error_of([](CheckpointConfig& c) { c.initial_load_in_hf_quantized = true; }),
                 "needs checkpoint.initial_load_in_hf"));
  CHECK(contains(config_error_of([](CheckpointConfig& c) {
                   c.initial_load_in_hf = c.initial_load_in_hf_quantized = true;
                 }),
                 "needs checkpoint.initial_load_path"));
  CHECK(contains(config_error_of([](CheckpointConfig& c) {
                   c.initial_load_in_hf = true;
                   c.initial_load_path = "weights";
                 }),
                 "'weights' must be an absolute path"));
  CHECK(contains(config_error_of([](CheckpointConfig& c) { c.exclude_from_loading = {"model"}; }),
                 "'model' cannot be excluded"));
}

TEST_CASE("what needs native checkpoints is refused as not built yet") {
  const auto refused = [](auto change, std::string_view field) {
    const std::string error = config_error_of(change);
    CAPTURE(error);
    CHECK(contains(error, "not built yet"));
    CHECK(contains(error, field));
  };
  refused([](CheckpointConfig& c) { c.interval = 9; }, "checkpoint.interval 9");
  refused([](CheckpointConfig& c) { c.last_save_in_hf = false; }, "checkpoint.last_save_in_hf");
  refused([](CheckpointConfig& c) { c.last_save_in_hf = c.last_save_model_only = false; },
          "checkpoint.last_save_model_only");
  refused([](CheckpointConfig& c) { c.initial_load_model_only = false; },
          "checkpoint.initial_load_model_only");
  refused([](CheckpointConfig& c) { c.initial_load_path = "/native"; },
          "checkpoint.initial_load_path '/native'");
  refused([](CheckpointConfig& c) { c.folder = "s3://bucket"; }, "checkpoint.folder 's3://bucket'");
  refused(
      [](CheckpointConfig& c) {
        c.initial_load_in_hf = true;
        c.initial_load_path = "s3://bucket";
      },
      "checkpoint.initial_load_path 's3://bucket'");
}

TEST_CASE("a load from assets without assets says what to set") {
  CheckpointConfig config;
  config.enable = config.initial_load_in_hf = config.last_save_in_hf = true;
  CHECK(contains(error_of([&] { config.validate_run(10, ""); }),
                 "set checkpoint.initial_load_path or hf_assets_path"));
}
