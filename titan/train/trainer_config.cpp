#include "titan/train/trainer_config.h"

#include <cmath>
#include <utility>

#include "titan/base/env.h"
#include "titan/base/error.h"

namespace titan {
namespace {

void require_positive(const char* field, int64_t value) {
  if (value <= 0) throw ConfigError("{} must be positive (given: {})", field, value);
}

/// For fields where -1 means "decide for me".
void require_positive_or_minus_one(const char* field, int64_t value) {
  if (value <= 0 && value != -1) throw ConfigError("{} must be positive or -1 (given: {})", field, value);
}

void validate_group(const ParamGroupConfig& group, size_t index) {
  const auto& kwargs = group.optimizer_kwargs;
  const auto refuse = [&](const char* name, const auto& given, const char* rule) {
    throw ConfigError("optimizer.param_groups.{}.optimizer_kwargs.{} must be {} (given: {})", index, name,
                      rule, given);
  };
  if (group.pattern.empty()) {
    throw ConfigError("optimizer.param_groups.{}.pattern is empty; \".*\" matches every parameter", index);
  }
  if (!(kwargs.lr >= 0 && std::isfinite(kwargs.lr))) refuse("lr", kwargs.lr, "0 or more and finite");
  if (!(kwargs.eps > 0 && std::isfinite(kwargs.eps))) refuse("eps", kwargs.eps, "positive and finite");
  if (!(kwargs.weight_decay >= 0 && std::isfinite(kwargs.weight_decay))) {
    refuse("weight_decay", kwargs.weight_decay, "0 or more and finite");
  }
  if (kwargs.betas.size() != 2) refuse("betas", kwargs.betas.size(), "two numbers");
  for (const double beta : kwargs.betas) {
    if (!(beta >= 0 && beta < 1)) refuse("betas", beta, "at least 0 and below 1");
  }
}

void validate_model(const TrainerConfig& config) {
  if (!config.model_spec.model) {
    throw ConfigError(
        "model_spec is empty: the config function must set it, for example config.model_spec = "
        "qwen3::model_registry(\"4B\")");
  }
  const auto& model = *config.model_spec.model;
  const int64_t limit = model.max_seq_len();
  if (config.training.seq_len > limit) {
    throw ConfigError(
        "training.seq_len {} is more than the {} positions that {} {} is made for; lower it, or raise the "
        "model's limit with model_registry(\"{}\", {.max_position_embeddings = {}})",
        config.training.seq_len, limit, config.model_spec.name, config.model_spec.flavor,
        config.model_spec.flavor, config.training.seq_len);
  }
}

}  // namespace

Poly<ActivationCheckpointConfig> default_activation_checkpoint() { return SelectiveACConfig{}; }

OptimizerConfig default_adamw(double lr) {
  ParamGroupConfig group;
  group.optimizer_kwargs.lr = lr;
  return {.param_groups = {group}};
}

void TrainingConfig::validate() const {
  require_positive("training.local_batch_size", local_batch_size);
  require_positive_or_minus_one("training.global_batch_size", global_batch_size);
  require_positive("training.seq_len", seq_len);
  require_positive("training.steps", steps);
  constexpr int64_t kMostTokens = int64_t{1} << 31;
  if (seq_len > kMostTokens || local_batch_size > kMostTokens / seq_len) {
    throw ConfigError(
        "training.local_batch_size {} x training.seq_len {} is more than {} tokens at once; lower them, and "
        "use "
        "training.global_batch_size to accumulate gradients",
        local_batch_size, seq_len, kMostTokens);
  }
  if (!(max_norm > 0)) throw ConfigError("training.max_norm must be positive (given: {})", max_norm);
  if (dtype == TrainingDtype::bfloat16 && mixed_precision_param == TrainingDtype::float32) {
    throw ConfigError(
        "training.mixed_precision_param float32 has no use with training.dtype bfloat16: arithmetic would be "
        "more "
        "precise than the only copy of the weights; set both to float32, or both to bfloat16");
  }
}

void ParallelismConfig::validate() const {
  require_positive("parallelism.data_parallel_replicate_degree", data_parallel_replicate_degree);
  require_positive_or_minus_one("parallelism.data_parallel_shard_degree", data_parallel_shard_degree);
  require_positive("parallelism.tensor_parallel_degree", tensor_parallel_degree);
}

void CommConfig::validate() const {
  constexpr int64_t kYear = 365 * 24 * 3600;
  for (const auto& [field, seconds] : {std::pair("comm.init_timeout_seconds", init_timeout_seconds),
                                       std::pair("comm.train_timeout_seconds", train_timeout_seconds)}) {
    require_positive(field, seconds);
    if (seconds > kYear) throw ConfigError("{} must be at most {} (given: {})", field, kYear, seconds);
  }
}

void OptimizerConfig::validate() const {
  for (size_t i = 0; i < param_groups.size(); ++i) validate_group(param_groups[i], i);
}

void LrSchedulerConfig::validate() const {
  if (warmup_steps < 0)
    throw ConfigError("lr_scheduler.warmup_steps must be 0 or more (given: {})", warmup_steps);
  if (total_steps) require_positive("lr_scheduler.total_steps", *total_steps);
  if (decay_ratio && !(*decay_ratio >= 0 && *decay_ratio <= 1)) {
    throw ConfigError("lr_scheduler.decay_ratio must be between 0 and 1 (given: {})", *decay_ratio);
  }
  if (!(min_lr_factor >= 0 && min_lr_factor <= 1)) {
    throw ConfigError("lr_scheduler.min_lr_factor must be between 0 and 1 (given: {})", min_lr_factor);
  }
}

void MetricsConfig::validate() const {
  require_positive("metrics.log_freq", log_freq);
  if (enable_tensorboard && save_tb_folder.empty()) {
    throw ConfigError("metrics.save_tb_folder is empty: give a folder name, for example 'tb'");
  }
  if (enable_jsonl && save_jsonl_file.empty()) {
    throw ConfigError("metrics.save_jsonl_file is empty: give a file name, for example 'metrics.jsonl'");
  }
}

void ValidatorConfig::validate() const {
  require_positive("validator.freq", freq);
  require_positive_or_minus_one("validator.steps", steps);
  if (enable && steps == -1 && dataloader.infinite) {
    throw ConfigError(
        "validator.steps -1 takes the whole set, but validator.dataloader.infinite never ends; pass "
        "--validator.dataloader.no_infinite or a number of steps");
  }
}

void TrainerConfig::validate() const {
  validate_model(*this);
  if (hf_assets_path.ends_with("tokenizer.model")) {
    throw ConfigError(
        "hf_assets_path '{}' is a file; give the folder that holds tokenizer.json and config.json",
        hf_assets_path);
  }
  if (dump_folder.empty()) throw ConfigError("dump_folder is empty: give a folder, for example './outputs'");
  if (optimizer.param_groups.empty()) {
    throw ConfigError(
        "optimizer.param_groups is empty: config.optimizer = default_adamw(8e-4) is the usual choice");
  }
  // A launcher's rank checks it when it knows how many ranks read different rows.
  if (!env("WORLD_SIZE")) gradient_accumulation_steps(training, 1);
  checkpoint.validate_run(training.steps, hf_assets_path);
}

void prepare_model(TrainerConfig& config) {
  check(bool(config.model_spec.model), "a validated configuration has a model");
  auto& model = *config.model_spec.model;
  if (model.has_moe()) {
    throw ConfigError("model_spec: a mixture of experts ({} {}) is not built yet; choose a dense flavor",
                      config.model_spec.name, config.model_spec.flavor);
  }
  if (!config.attention.mask) return;
  for (auto& layer : model.layers) layer->attention->mask = *config.attention.mask;
}

int64_t global_batch_size(const TrainingConfig& training, int64_t dp) {
  return training.global_batch_size == -1 ? training.local_batch_size * dp : training.global_batch_size;
}

int64_t gradient_accumulation_steps(const TrainingConfig& training, int64_t dp) {
  const int64_t global = global_batch_size(training, dp), local = training.local_batch_size;
  if (global % (local * dp) != 0) {
    throw ConfigError(
        "training.global_batch_size: global batch size must be multiple of local batch size times "
        "data-parallel "
        "degree ({} % ({} * {}) != 0)",
        global, local, dp);
  }
  return global / (local * dp);
}

}  // namespace titan
