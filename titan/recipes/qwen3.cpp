#include "titan/recipes/qwen3.h"

#include "titan/base/file.h"

namespace titan::qwen3 {
namespace {

/// The 2,048-id tokenizer that titan ships: the reference's ./tests/assets/tokenizer, found from any folder.
std::string bundled_tokenizer() { return (share_folder() / "tests/assets/tokenizer").string(); }

/// What the reference's functions share.
TrainerConfig recipe(std::string_view flavor, std::string assets, double lr) {
  TrainerConfig config;
  config.model_spec = model_registry(flavor);
  config.hf_assets_path = std::move(assets);
  config.optimizer = default_adamw(lr);
  config.checkpoint.last_save_model_only = false;
  return config;
}

/// Pre-training from c4 at 4,096 tokens a row, as all sizes from 0.6B on do.
TrainerConfig pretraining(std::string_view flavor, double lr) {
  TrainerConfig config = recipe(flavor, "./assets/hf/Qwen3-" + std::string(flavor), lr);
  config.dataloader.dataset = "c4";
  config.training.local_batch_size = 4;
  config.training.seq_len = 4096;
  config.checkpoint.export_dtype = ExportDtype::float16;
  return config;
}

TrainerConfig long_pretraining(std::string_view flavor, int64_t local_batch_size) {
  TrainerConfig config = pretraining(flavor, 8e-4);
  config.lr_scheduler.warmup_steps = 600;
  config.training.local_batch_size = local_batch_size;
  config.training.steps = 3000;
  config.activation_checkpoint = FullACConfig{};
  return config;
}

}  // namespace

TrainerConfig qwen3_demo() {
  TrainerConfig config;
  config.model_spec = model_registry("demo");
  config.hf_assets_path = bundled_tokenizer();
  config.metrics.log_freq = 10;
  config.optimizer = default_adamw(1e-3);
  config.lr_scheduler.warmup_steps = 20;
  config.lr_scheduler.decay_ratio = 0.5;
  config.lr_scheduler.min_lr_factor = 0.1;
  config.training.local_batch_size = 4;
  config.training.seq_len = 256;
  config.training.steps = 200;
  config.training.mixed_precision_param = TrainingDtype::float32;
  config.activation_checkpoint = NoACConfig{};
  config.validator.enable = true;
  config.validator.freq = 100;
  config.validator.steps = 10;
  config.validator.dataloader.dataset = "c4_test_validation";
  config.checkpoint.enable = true;
  config.checkpoint.last_save_in_hf = true;
  config.debug.seed = 42;
  return config;
}

TrainerConfig qwen3_debugmodel() {
  TrainerConfig config = recipe("debugmodel", bundled_tokenizer(), 8e-4);
  config.metrics.log_freq = 1;
  config.lr_scheduler.warmup_steps = 2;
  config.lr_scheduler.decay_ratio = 0.8;
  config.training.local_batch_size = 8;
  config.training.seq_len = 2048;
  config.training.steps = 10;
  config.checkpoint.interval = 10;
  return config;
}

TrainerConfig qwen3_debugmodel_non_fused_qkv() {
  TrainerConfig config = qwen3_debugmodel();
  config.model_spec = model_registry("debugmodel_non_fused_qkv");
  return config;
}

TrainerConfig qwen3_moe_debug() {
  TrainerConfig config = recipe("debugmodel_moe", bundled_tokenizer(), 3e-4);
  config.metrics.log_freq = 1;
  config.lr_scheduler.warmup_steps = 2;
  config.training.local_batch_size = 4;
  config.training.seq_len = 4096;
  config.training.steps = 10;
  config.checkpoint.interval = 10;
  config.checkpoint.export_dtype = ExportDtype::float16;
  return config;
}

TrainerConfig qwen3_debugmodel_moe_param_groups() {
  TrainerConfig config = qwen3_moe_debug();
  ParamGroupConfig tables{.pattern = R"((?:tok_embeddings|output)\.)"};
  tables.optimizer_kwargs.weight_decay = 0.0;
  ParamGroupConfig gates{.pattern = R"(\.router\.gate\.)", .optimizer_name = OptimizerName::Adam};
  gates.optimizer_kwargs.lr = 1e-4;
  gates.optimizer_kwargs.weight_decay = 0.0;
  config.optimizer.param_groups = {tables, gates, ParamGroupConfig{}};
  return config;
}

TrainerConfig qwen3_0_6b() {
  TrainerConfig config = pretraining("0.6B", 3e-4);
  config.metrics.log_freq = 1;
  config.lr_scheduler.warmup_steps = 2;
  config.training.steps = 10;
  return config;
}

TrainerConfig qwen3_1_7b() {
  TrainerConfig config = pretraining("1.7B", 8e-4);
  config.lr_scheduler.warmup_steps = 20;
  config.training.steps = 100;
  config.checkpoint.interval = 50;
  return config;
}

TrainerConfig qwen3_14b() { return long_pretraining("14B", 4); }

TrainerConfig qwen3_32b() { return long_pretraining("32B", 2); }

TrainerConfig qwen3_30b_a3b() { return long_pretraining("30B-A3B", 2); }

}  // namespace titan::qwen3
