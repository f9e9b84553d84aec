#pragma once

#include <array>
#include <optional>
#include <string>

#include "titan/checkpoint/checkpoint_config.h"
#include "titan/config/fields.h"
#include "titan/data/data_loader_config.h"
#include "titan/models/common/model_spec.h"
#include "titan/train/activation_checkpoint_config.h"
#include "titan/train/comm_config.h"
#include "titan/train/compile_config.h"
#include "titan/train/debug_config.h"
#include "titan/train/fault_tolerance_config.h"
#include "titan/train/loss_config.h"
#include "titan/train/lr_scheduler_config.h"
#include "titan/train/metrics_config.h"
#include "titan/train/optimizer_config.h"
#include "titan/train/override_config.h"
#include "titan/train/parallelism_config.h"
#include "titan/train/profiler_config.h"
#include "titan/train/tokenizer_config.h"
#include "titan/train/training_config.h"
#include "titan/train/validator_config.h"

namespace titan {

/// Where a run computes.
enum class DeviceKind { cpu, cuda, neuron };
template <>
inline constexpr auto names<DeviceKind> = std::to_array<Named<DeviceKind>>(
    {{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}, {"neuron", DeviceKind::neuron}});

/// What holds for the attention of every layer.
struct AttentionSettingsConfig {
  std::optional<AttnMask> mask = {};

  void describe(Fields& f) {
    f("mask", mask, "document or causal for every layer; none: as the model's tree says");
  }
};

/// Everything about a training run: what a config function returns and `titan train` carries out.
struct TrainerConfig {
  ModelSpec model_spec = {};
  std::string hf_assets_path = "./tests/assets/tokenizer";
  std::string dump_folder = "./outputs";
  std::optional<DeviceKind> device = {};
  ProfilerConfig profiler = {};
  MetricsConfig metrics = {};
  TokenizerConfig tokenizer = {};
  DataLoaderConfig dataloader = {};
  OptimizerConfig optimizer = {};
  LrSchedulerConfig lr_scheduler = {};
  TrainingConfig training = {};
  AttentionSettingsConfig attention = {};
  ParallelismConfig parallelism = {};
  CheckpointConfig checkpoint = {};
  Poly<ActivationCheckpointConfig> activation_checkpoint = default_activation_checkpoint();
  CompileConfig compile = {};
  CommConfig comm = {};
  ValidatorConfig validator = {};
  DebugConfig debug = {};
  OverrideConfig override = {};
  LossConfig loss = {};
  FaultToleranceConfig fault_tolerance = {};

  void describe(Fields& f) {
    f("model_spec", model_spec, "The model; set by the config function");
    f("hf_assets_path", hf_assets_path, "Folder of tokenizer files, config.json and Hugging Face weights");
    f("dump_folder", dump_folder, "Folder everything is written under");
    f("device", device,
      "cpu or neuron (cuda is not built yet); none: neuron where TITAN_NEURON_PROVIDER is set, else cpu");
    f("profiler", profiler, "Traces and memory snapshots");
    f("metrics", metrics, "Reports");
    f("tokenizer", tokenizer, "The tokenizer is hf_assets_path's");
    f("dataloader", dataloader, "Training data");
    f("optimizer", optimizer, "Parameter groups and their optimizers");
    f("lr_scheduler", lr_scheduler, "Learning rate over the run");
    f("training", training, "Batch, length, steps and number types");
    f("attention", attention, "Attention of every layer");
    f("parallelism", parallelism, "How ranks divide the work");
    f("checkpoint", checkpoint, "Loading and saving weights");
    f("activation_checkpoint", activation_checkpoint, "What the backward pass computes again");
    f("compile", compile, "torch.compile of the reference");
    f("comm", comm, "Communication between ranks");
    f("validator", validator, "Validation");
    f("debug", debug, "Seeds, determinism, printing");
    f("override", override, "Replacement of nodes of this tree");
    f("loss", loss, "Loss");
    f("fault_tolerance", fault_tolerance, "The reference's experiment with torchft");
  }

  /// ConfigError naming the fields when sections contradict one another. Each section checks itself.
  void validate() const;
};

/// What a validated configuration needs before its model is built: attention.mask is written into the layers.
/// ConfigError when the model holds what is not built yet.
void prepare_model(TrainerConfig& config);

/// Rows per optimizer step: training.global_batch_size, or local_batch_size times `dp` data-parallel ranks
/// for -1.
int64_t global_batch_size(const TrainingConfig& training, int64_t dp);

/// Micro-batches per optimizer step. ConfigError with the reference's text when the batch does not divide.
int64_t gradient_accumulation_steps(const TrainingConfig& training, int64_t dp);

}  // namespace titan
