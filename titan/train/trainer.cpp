#include "titan/train/trainer.h"

#include <ATen/Context.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"
#include "titan/models/common/model_size.h"
#include "titan/nn/parameter.h"
#include "titan/ops/autograd.h"
#include "titan/ops/cpu_info.h"
#include "titan/ops/threads.h"
#include "titan/train/check_assets.h"
#include "titan/train/hf_model.h"

namespace titan {
namespace {

at::ScalarType scalar_type(TrainingDtype dtype) {
  return dtype == TrainingDtype::bfloat16 ? at::kBFloat16 : at::kFloat;
}

/// The word users write for an enumerator.
template <class E>
std::string_view word_of(E value) {
  return std::ranges::find(names<E>, value, &Named<E>::value)->name;
}

void refuse_other_ranks(Trainer&) {
  const auto world_size = env("WORLD_SIZE");
  if (!world_size || *world_size == "1") return;
  throw ConfigError(
      "WORLD_SIZE is {}: training on several ranks is not built yet; start one process, without torchrun",
      *world_size);
}

void prepare_dump_folder(Trainer& trainer) {
  require_writable_folder(trainer.config().dump_folder, "--dump_folder");
}

void choose_device(Trainer& trainer) {
  trainer.device = device_info(word_of(trainer.config().device.value_or(DeviceKind::cpu)));
  set_up_threads();
}

void report_config(Trainer& trainer) {
  const DebugConfig& debug = trainer.config().debug;
  if (debug.print_config) log_info("Running with configs: {}", trainer.request.shown_config.dump(2));
  if (!debug.save_config_file) return;
  const auto path = std::filesystem::path(trainer.config().dump_folder) / *debug.save_config_file;
  std::filesystem::create_directories(path.parent_path());
  write_file_atomic(path, trainer.request.shown_config.dump(2) + "\n");
  log_info("Saved job configs to {}", path.string());
}

void build_mesh(Trainer&) {
  log_info("Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=1, cp=1, tp=1, ep=1");
  log_info("Successfully created meshes with active dimensions: []");
}

void report_overrides(Trainer& trainer) {
  for (const std::string& line : trainer.request.override_lines) log_info("{}", line);
}

void set_determinism(Trainer& trainer) {
  const DebugConfig& debug = trainer.config().debug;
  trainer.seed = debug.seed ? static_cast<uint64_t>(*debug.seed) : std::random_device{}();
  log_info("Seed: {}{}", trainer.seed, debug.seed ? "" : " (drawn; --debug.seed repeats it)");
  if (!debug.deterministic) return;
  at::globalContext().setDeterministicAlgorithms(true, debug.deterministic_warn_only);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  log_info("Deterministic algorithms are on: an operator without one {}",
           debug.deterministic_warn_only ? "only warns" : "is an error");
}

void check_assets_of_run(Trainer& trainer) {
  for (const std::string& warning : check_assets(trainer.config())) log_warning("{}", warning);
}

void report_attention(const ModelConfig& model) {
  const AttentionConfig& attention = *model.layers.front()->attention;
  const bool causal_there = attention.attn_backend == AttnBackend::sdpa;
  log_info("Attention mask: {}; torchtitan's attn_backend {} would use {}", word_of(attention.mask),
           word_of(attention.attn_backend), causal_there ? "causal" : "document");
}

void build_model_parts(Trainer& trainer) {
  prepare_model(trainer.request.config);
  const ModelSpec& spec = trainer.config().model_spec;
  log_info("Building {} {}", spec.name, spec.flavor);
  report_attention(*spec.model);
  auto model = build_model(spec.model);
  allocate(*model, scalar_type(trainer.config().training.dtype), at::kCPU);
  const at::ScalarType compute = scalar_type(trainer.config().training.mixed_precision_param);
  model->set_compute_dtype(compute);
  if (compute == at::kBFloat16 && !bf16_arithmetic()) {
    log_info("bfloat16 is storage only: this CPU has no bfloat16 arithmetic, matrix products run in float32");
  }
  trainer.model_parts = {model};
}

void build_metrics(Trainer& trainer) {
  const ModelSpec& spec = trainer.config().model_spec;
  MetricsContext context{.dump_folder = trainer.config().dump_folder,
                         .device = trainer.device,
                         .peak = peak_flops(trainer.device.type, trainer.device.name),
                         .flops_per_token = flops_per_token(*spec.model, trainer.config().training.seq_len)};
  trainer.metrics.emplace(trainer.config().metrics, context);
  log_info("{}", capacity_line(trainer.device));
  log_info("{}", model_size_line(spec.name, spec.flavor, model_size(*spec.model).total(),
                                 trainer.metrics->colors()));
}

void set_recompute(Trainer& trainer) {
  const auto& config = trainer.config().activation_checkpoint;
  const bool full = config.get<FullACConfig>() != nullptr,
             selective = config.get<SelectiveACConfig>() != nullptr;
  if (!full && !selective) return;
  for (const auto& model : trainer.model_parts) {
    model->set_recompute(full ? Recompute::full : Recompute::selective);
  }
  log_info("Applied {} activation checkpointing to the model", full ? "FullAC" : "SelectiveAC");
}

int64_t parameter_bytes(const Trainer& trainer) {
  int64_t bytes = 0;
  for (const auto& model : trainer.model_parts) {
    for (const auto& [name, parameter] : model->named_parameters()) {
      bytes += static_cast<int64_t>(parameter->value.nbytes());
    }
  }
  return bytes;
}

void report_capacity(Trainer& trainer) {
  log_info("{}", peak_line(trainer.metrics->peak().flops));
  log_info("That peak was {}", trainer.metrics->peak().source);
  log_info("{}", model_memory_line(trainer.device, parameter_bytes(trainer)));
}

// Memory is only taken as it is written to: without this check a model that is too large would be killed by
// the system without a word, after minutes.
void check_memory(Trainer& trainer) {
  const bool small_moments =
      trainer.config().optimizer.implementation == OptimizerImplementation::fused_opt_states_bf16;
  const bool small_weights = trainer.config().training.dtype == TrainingDtype::bfloat16;
  const int64_t weights = parameter_bytes(trainer);
  const int64_t moments = small_moments && !small_weights ? weights : 2 * weights;
  const int64_t needed = 2 * weights + moments;
  if (needed <= trainer.device.capacity_bytes + trainer.device.swap_bytes) return;
  const ModelSpec& spec = trainer.config().model_spec;
  const auto gib = [](int64_t bytes) { return fixed(static_cast<double>(bytes) / kGiB, 1); };
  throw ValueError(
      "{} {} needs {} GiB for weights ({}), gradients ({}) and optimizer moments ({}), but this machine has "
      "{} GiB of memory and {} GiB of swap; take a smaller flavor, or training.dtype bfloat16 and "
      "optimizer.implementation fused_opt_states_bf16",
      spec.name, spec.flavor, gib(needed), gib(weights), gib(weights), gib(moments),
      gib(trainer.device.capacity_bytes), gib(trainer.device.swap_bytes));
}

void build_optimizer(Trainer& trainer) {
  std::vector<Module::NamedParameter> parameters;
  for (const auto& model : trainer.model_parts) {
    const auto part = model->named_parameters();
    parameters.insert(parameters.end(), part.begin(), part.end());
  }
  trainer.optimizer.emplace(trainer.config().optimizer, parameters);
  for (const std::string& line : trainer.optimizer->banner()) log_info("{}", line);
  trainer.lr_scheduler.emplace(trainer.config().lr_scheduler, trainer.config().training.steps);
}

void load_tokenizer(Trainer& trainer) {
  trainer.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(trainer.config().hf_assets_path));
  log_info("Loading tokenizer from {}", trainer.tokenizer->path().filename().string());
  const int64_t tokens = trainer.tokenizer->vocab_size(),
                rows = trainer.config().model_spec.model->vocab_size;
  if (tokens <= rows) return;
  throw ConfigError(
      "hf_assets_path {}: its tokenizer has {} ids, but {} {} has a vocabulary of {}; give the tokenizer "
      "that belongs to the model, or a model with a larger vocab_size",
      trainer.config().hf_assets_path, tokens, trainer.config().model_spec.name,
      trainer.config().model_spec.flavor, rows);
}

LoaderOptions loader_options(const Trainer& trainer) {
  return {.seq_len = trainer.config().training.seq_len,
          .local_batch_size = trainer.config().training.local_batch_size};
}

void open_data(Trainer& trainer) {
  trainer.accumulation_steps = gradient_accumulation_steps(trainer.config().training, 1);
  trainer.data.emplace(trainer.config().dataloader, trainer.tokenizer, loader_options(trainer));
}

void open_validation(Trainer& trainer) {
  if (!trainer.config().validator.enable) return;
  trainer.validator.emplace(trainer.config().validator, trainer.tokenizer, loader_options(trainer));
}

void build_checkpoints(Trainer& trainer) {
  trainer.checkpoints.emplace(trainer.config().checkpoint,
                              CheckpointManager::Paths{.dump_folder = trainer.config().dump_folder,
                                                       .hf_assets_path = trainer.config().hf_assets_path});
}

void report_run(Trainer& trainer) {
  const TrainingConfig& training = trainer.config().training;
  log_info(
      "Trainer is initialized with local batch size {}, global batch size {}, gradient accumulation steps "
      "{}, "
      "sequence length {}, total steps {} (warmup {})",
      training.local_batch_size, global_batch_size(training, 1), trainer.accumulation_steps, training.seq_len,
      training.steps, trainer.config().lr_scheduler.warmup_steps);
}

// Random weights are made only when none are loaded: filling billions of them takes a while.
void give_weights(Trainer& trainer) {
  LanguageModel& model = *trainer.model_parts.front();
  if (const auto loaded = trainer.checkpoints->load(hf_model(model, trainer.config().model_spec))) {
    trainer.step = loaded->step;
    return;
  }
  const NoGrad no_grad;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const Block whole{std::vector<int64_t>(parameter->shape.size(), 0), parameter->shape};
    fill_block(parameter->value, parameter->init, parameter->shape, whole, trainer.seed, name);
  }
}

// The order of the reference's banner; what can fail without the model's memory comes before step 1 in any
// case.
constexpr void (*kConstructionSteps[])(Trainer&) = {
    refuse_other_ranks, choose_device,    prepare_dump_folder, report_config,     build_mesh,
    set_determinism,    report_overrides, check_assets_of_run, build_model_parts, build_metrics,
    set_recompute,      report_capacity,  check_memory,        build_optimizer,   load_tokenizer,
    open_data,          open_validation,  build_checkpoints,   report_run,        give_weights,
};

}  // namespace

Trainer build_trainer(RunRequest request) {
  Trainer trainer{.request = std::move(request)};
  for (const auto step : kConstructionSteps) step(trainer);
  return trainer;
}

}  // namespace titan
