#include "titan/train/trainer_config.h"

#include <doctest/doctest.h>

#include <string>

#include "titan/base/error.h"
#include "titan/recipes/qwen3.h"
#include "titan/recipes/summary.h"

using namespace titan;

namespace {

/// The message for the demo after `change`, checked as a whole and section by section; "" when it is
/// accepted.
std::string demo_error(auto&& change) {
  TrainerConfig config = qwen3::qwen3_demo();
  change(config);
  try {
    config.training.validate();
    config.parallelism.validate();
    config.comm.validate();
    config.optimizer.validate();
    config.lr_scheduler.validate();
    config.metrics.validate();
    config.validator.validate();
    config.validate();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("The demo is accepted") {
  CHECK(demo_error([](TrainerConfig&) {}) == "");
}

TEST_CASE("A seq_len over the model's limit is an error that names both") {
  const std::string error = demo_error([](TrainerConfig& c) { c.training.seq_len = 50000; });
  CHECK(
      contains(error, "training.seq_len 50000 is more than the 2048 positions that qwen3 demo is made for"));
  CHECK(contains(error, "model_registry(\"demo\", {.max_position_embeddings = 50000})"));
  CHECK(demo_error([](TrainerConfig& c) { c.training.seq_len = 2048; }) == "");
}

TEST_CASE("Sizes that are not positive are named with what was given") {
  CHECK(demo_error([](TrainerConfig& c) { c.training.seq_len = 0; }) ==
        "training.seq_len must be positive (given: 0)");
  CHECK(demo_error([](TrainerConfig& c) { c.training.local_batch_size = -1; }) ==
        "training.local_batch_size must be positive (given: -1)");
  CHECK(demo_error([](TrainerConfig& c) { c.training.global_batch_size = 0; }) ==
        "training.global_batch_size must be positive or -1 (given: 0)");
  CHECK(demo_error([](TrainerConfig& c) { c.training.steps = 0; }) ==
        "training.steps must be positive (given: 0)");
  CHECK(demo_error([](TrainerConfig& c) { c.metrics.log_freq = 0; }) ==
        "metrics.log_freq must be positive (given: 0)");
  CHECK(demo_error([](TrainerConfig& c) { c.validator.freq = 0; }) ==
        "validator.freq must be positive (given: 0)");
}

TEST_CASE("A batch that does not divide has the reference's text") {
  CHECK(demo_error([](TrainerConfig& c) {
          c.training.local_batch_size = 4;
          c.training.global_batch_size = 6;
        }) ==
        "training.global_batch_size: global batch size must be multiple of local batch size times "
        "data-parallel "
        "degree (6 % (4 * 1) != 0)");
  TrainingConfig training{.local_batch_size = 2, .global_batch_size = 24};
  CHECK(gradient_accumulation_steps(training, 4) == 3);
  training.global_batch_size = -1;
  CHECK(global_batch_size(training, 4) == 8);
  CHECK(gradient_accumulation_steps(training, 4) == 1);
}

TEST_CASE("Settings that contradict one another are named") {
  CHECK(contains(demo_error([](TrainerConfig& c) {
                   c.training.dtype = TrainingDtype::bfloat16;
                   c.training.mixed_precision_param = TrainingDtype::float32;
                 }),
                 "training.mixed_precision_param float32 has no use with training.dtype bfloat16"));
  CHECK(contains(demo_error([](TrainerConfig& c) {
                   c.validator.enable = true;
                   c.validator.steps = -1;
                   c.validator.dataloader.infinite = true;
                 }),
                 "validator.dataloader.infinite never ends"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.hf_assets_path = "assets/tokenizer.model"; }),
                 "hf_assets_path 'assets/tokenizer.model' is a file"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.dump_folder = ""; }), "dump_folder is empty"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.model_spec = {}; }), "model_spec is empty"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.parallelism.data_parallel_shard_degree = 0; }),
                 "parallelism.data_parallel_shard_degree must be positive or -1 (given: 0)"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.parallelism.tensor_parallel_degree = -1; }),
                 "parallelism.tensor_parallel_degree must be positive (given: -1)"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.parallelism.data_parallel_replicate_degree = 0; }),
                 "parallelism.data_parallel_replicate_degree must be positive (given: 0)"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.comm.init_timeout_seconds = 0; }),
                 "comm.init_timeout_seconds must be positive (given: 0)"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.comm.train_timeout_seconds = -3; }),
                 "comm.train_timeout_seconds must be positive (given: -3)"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.comm.train_timeout_seconds = INT64_MAX; }),
                 "comm.train_timeout_seconds must be at most 31536000"));
}

TEST_CASE("Optimizer and schedule refuse numbers that cannot train") {
  const auto group_error = [](auto&& change) {
    return demo_error([&](TrainerConfig& c) { change(c.optimizer.param_groups[0]); });
  };
  CHECK(contains(group_error([](auto& g) { g.optimizer_kwargs.lr = -1; }),
                 "optimizer.param_groups.0.optimizer_kwargs.lr must be 0 or more and finite (given: -1)"));
  CHECK(
      contains(group_error([](auto& g) { g.optimizer_kwargs.betas = {0.9}; }), "betas must be two numbers"));
  CHECK(contains(group_error([](auto& g) { g.optimizer_kwargs.betas = {0.9, 1.0}; }), "below 1 (given: 1)"));
  CHECK(contains(group_error([](auto& g) { g.pattern = ""; }), "param_groups.0.pattern is empty"));
  CHECK(
      contains(demo_error([](TrainerConfig& c) { c.optimizer.param_groups = {}; }), "param_groups is empty"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.lr_scheduler.decay_ratio = 1.5; }),
                 "lr_scheduler.decay_ratio must be between 0 and 1 (given: 1.5)"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.lr_scheduler.warmup_steps = -1; }), "warmup_steps"));
  CHECK(contains(demo_error([](TrainerConfig& c) { c.lr_scheduler.total_steps = 0; }), "total_steps"));
}

TEST_CASE("attention.mask is written into every layer, and left alone when unset") {
  TrainerConfig config = qwen3::qwen3_demo();
  prepare_model(config);
  CHECK(config.model_spec.model->layers[3]->attention->mask == AttnMask::document);
  config.attention.mask = AttnMask::causal;
  prepare_model(config);
  for (const auto& layer : config.model_spec.model->layers) CHECK(layer->attention->mask == AttnMask::causal);
}

TEST_CASE("The summary prints parameters and FLOPs per token") {
  TrainerConfig config = qwen3::qwen3_32b();
  config.model_spec = qwen3::model_registry("4B");
  const std::string text = summary(config);
  CHECK(contains(text, "4,022,468,096"));
  CHECK(contains(text, "31,382,565,888 at sequence length 4,096"));
  CHECK(contains(text, "tied to the embedding"));
  CHECK(contains(summary(qwen3::qwen3_30b_a3b()), "3,353,032,704"));
}
