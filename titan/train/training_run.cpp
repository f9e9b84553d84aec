#include "titan/train/training_run.h"

#include <ATen/Context.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"
#include "titan/models/common/model_size.h"
#include "titan/nn/module.h"
#include "titan/ops/cpu_info.h"
#include "titan/ops/device.h"
#include "titan/ops/threads.h"
#include "titan/train/agreement.h"
#include "titan/train/check_assets.h"
#include "titan/train/hf_model.h"
#include "titan/train/memory_check.h"
#include "titan/train/mesh_setup.h"
#include "titan/train/parallelize.h"
#include "titan/train/phase.h"
#include "titan/train/shape_check.h"

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

void place_in_job(TrainingRun& run) {
  run.launch = Launch::from_env();
  run.dims = resolve_mesh(run.config(), run.launch.world_size);
  run.accumulation_steps = gradient_accumulation_steps(run.config().training, run.dp());
}

void prepare_dump_folder(TrainingRun& run) {
  require_writable_folder(run.config().dump_folder, "--dump_folder");
}

void check_paths(TrainingRun& run) {
  const std::string& assets = run.config().hf_assets_path;
  if (!std::filesystem::exists(assets)) {
    throw ConfigError("hf_assets_path {} does not exist; it should be a folder with tokenizer.json", assets);
  }
}

void choose_device(TrainingRun& run) {
  const auto provider = named_provider();
  const DeviceKind kind = run.config().device.value_or(provider ? DeviceKind::neuron : DeviceKind::cpu);
  // Before torch is asked for anything: the device's library registers itself with it.
  set_up_threads();
  if (kind == DeviceKind::neuron) {
    take_neuron_device(provider.value_or("emulator"), run.launch.rank, run.launch.local_rank,
                       run.launch.local_world_size);
  }
  run.device = device_info(word_of(kind));
}

void report_config(TrainingRun& run) {
  const DebugConfig& debug = run.config().debug;
  if (debug.print_config) log_info("Running with configs: {}", run.request.shown_config.dump(2));
  if (!debug.save_config_file || run.launch.rank != 0) return;
  const auto path = std::filesystem::path(run.config().dump_folder) / *debug.save_config_file;
  std::filesystem::create_directories(path.parent_path());
  write_file_atomic(path, run.request.shown_config.dump(2) + "\n");
  log_info("Saved job configs to {}", path.string());
}

void build_mesh(TrainingRun& run) {
  run.world = meet_ranks(run.launch, run.dims, run.config().comm);
  Json shown = Json::object();
  shown.set("config", run.request.shown_config);
  shown.set("device", run.device.type);
  // A machine's own memory may differ from another's; that of emulated cores is a setting.
  if (run.device.emulated) shown.set("capacity", run.device.capacity_bytes);
  require_same_config(*run.world, shown);
}

void report_overrides(TrainingRun& run) {
  for (const std::string& line : run.request.override_lines) log_info("{}", line);
}

void set_determinism(TrainingRun& run) {
  const DebugConfig& debug = run.config().debug;
  // Rank 0's draw is everybody's.
  run.seed = debug.seed ? static_cast<uint64_t>(*debug.seed)
                        : static_cast<uint64_t>(gather_numbers(
                              *run.world, {static_cast<double>(std::random_device{}())})[0][0]);
  log_info("Seed: {}{}", run.seed, debug.seed ? "" : " (drawn; --debug.seed repeats it)");
  if (!debug.deterministic) return;
  at::globalContext().setDeterministicAlgorithms(true, debug.deterministic_warn_only);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  log_info("Deterministic algorithms are on: an operator without one {}",
           debug.deterministic_warn_only ? "only warns" : "is an error");
}

void check_assets_of_run(TrainingRun& run) {
  for (const std::string& warning : check_assets(run.config())) log_warning("{}", warning);
}

void check_shapes_of_run(TrainingRun& run) { check_shapes(run.config()); }

void report_attention(const ModelConfig& model) {
  const AttentionConfig& attention = *model.layers.front()->attention;
  const bool causal_there = attention.attn_backend == AttnBackend::sdpa;
  log_info("Attention mask: {}; torchtitan's attn_backend {} would use {}{}", word_of(attention.mask),
           word_of(attention.attn_backend), causal_there ? "causal" : "document",
           causal_there && attention.mask != AttnMask::causal ? " (--attention.mask causal does that)" : "");
}

/// Bytes of one whole unit of weights: what FSDP gathers at a time.
int64_t largest_unit_bytes(LanguageModel& model, int64_t element_bytes) {
  int64_t largest = 0;
  for (const ShardingUnit& unit : model.sharding_units()) {
    int64_t bytes = 0;
    for (const Module* module : unit.modules) {
      for (const auto& [name, parameter] : module->named_parameters()) {
        bytes += parameter->value_block.numel() * element_bytes;
      }
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

int64_t width_of(TrainingDtype dtype) { return static_cast<int64_t>(c10::elementSize(scalar_type(dtype))); }

/// Before anything is allocated: a device refuses what it cannot hold, in other words.
void check_memory(const TrainingRun& run, LanguageModel& model) {
  const TrainingConfig& training = run.config().training;
  int64_t kept = 0;
  for (const auto& [name, parameter] : model.named_parameters()) kept += parameter->shard_block.numel();
  const bool gathers = run.dims.degree(Axis::fsdp) > 1 || run.dims.degree(Axis::dp_replicate) > 1;
  const DeviceInfo host = device_info("cpu");
  const bool on_host = run.device.device.is_cpu();
  require_memory(
      run.config(),
      {.weight_bytes = kept * width_of(training.dtype),
       .unit_bytes = gathers ? largest_unit_bytes(model, width_of(training.mixed_precision_param)) : 0,
       .ranks = run.launch.local_world_size,
       .capacity_bytes = host.capacity_bytes,
       .swap_bytes = host.swap_bytes,
       .hbm_bytes = on_host ? 0 : run.device.capacity_bytes,
       .emulated_hbm = run.device.emulated});
}

void build_model_parts(TrainingRun& run) {
  prepare_model(run.request.config);
  const ModelSpec& spec = run.config().model_spec;
  log_info("Building {} {}", spec.name, spec.flavor);
  report_attention(*spec.model);
  auto model = build_model(spec.model);
  lay_out(*model, *run.world, run.config().parallelism);
  check_memory(run, *model);
  const Phase phase("weights");
  allocate(*model, scalar_type(run.config().training.dtype), run.device.device);
  const at::ScalarType compute = scalar_type(run.config().training.mixed_precision_param);
  model->set_compute_dtype(compute);
  if (compute == at::kBFloat16 && !bf16_arithmetic()) {
    log_info("bfloat16 is storage only: this CPU has no bfloat16 arithmetic, matrix products run in float32");
  }
  run.model_parts = {model};
}

/// A CPU's peak is measured, by the first rank of the machine alone: the others would only disturb it.
PeakFlops agreed_peak(TrainingRun& run) {
  const bool measures = run.launch.local_rank == 0;
  PeakFlops peak;
  if (measures) peak = peak_flops(run.device.type, run.device.name);
  const auto of_ranks = gather_numbers(*run.world, {peak.flops});
  if (!measures) {
    const auto first = static_cast<size_t>(run.launch.rank - run.launch.local_rank);
    peak = {.flops = of_ranks.at(first)[0], .source = format("found by rank {}", first)};
  }
  return peak;
}

void build_metrics(TrainingRun& run) {
  const ModelSpec& spec = run.config().model_spec;
  MetricsContext context{.dump_folder = run.config().dump_folder,
                         .device = run.device,
                         .peak = agreed_peak(run),
                         .flops_per_token = flops_per_token(*spec.model, run.config().training.seq_len),
                         .world = run.world.get()};
  run.metrics.emplace(run.config().metrics, context);
  log_info("{}", capacity_line(run.device));
  log_info("{}",
           model_size_line(spec.name, spec.flavor, model_size(*spec.model).total(), run.metrics->colors()));
}

void set_recompute(TrainingRun& run) {
  const auto& config = run.config().activation_checkpoint;
  const bool full = config.get<FullACConfig>() != nullptr,
             selective = config.get<SelectiveACConfig>() != nullptr;
  if (!full && !selective) return;
  for (const auto& model : run.model_parts) {
    model->set_recompute(full ? Recompute::full : Recompute::selective);
  }
  log_info("Applied {} activation checkpointing to the model", full ? "FullAC" : "SelectiveAC");
}

void shard_model(TrainingRun& run) {
  const at::ScalarType compute = scalar_type(run.config().training.mixed_precision_param);
  run.sharded = shard_fully(*run.model_parts.front(), *run.world, run.config().parallelism, compute);
}

int64_t parameter_bytes(const TrainingRun& run) {
  int64_t bytes = 0;
  for (const auto& [name, parameter] : run.parameters()) {
    bytes += static_cast<int64_t>(parameter->shard.nbytes());
  }
  return bytes;
}

void report_capacity(TrainingRun& run) {
  log_info("{}", peak_line(run.metrics->peak().flops));
  log_info("That peak was {}{}", run.metrics->peak().source,
           run.device.emulated ? "; tps, tflops and mfu are those of this machine, which emulates it" : "");
  log_info("{}", model_memory_line(run.device, parameter_bytes(run)));
}

void build_optimizer(TrainingRun& run) {
  const Phase phase("optimizer state");
  run.optimizer.emplace(run.config().optimizer, run.parameters());
  for (const std::string& line : run.optimizer->banner()) log_info("{}", line);
  run.lr_scheduler.emplace(run.config().lr_scheduler, run.config().training.steps);
}

void load_tokenizer(TrainingRun& run) {
  run.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(run.config().hf_assets_path));
  log_info("Loading tokenizer from {}", run.tokenizer->path().filename().string());
  const int64_t tokens = run.tokenizer->vocab_size(), rows = run.config().model_spec.model->vocab_size;
  if (tokens <= rows) return;
  throw ConfigError(
      "hf_assets_path {}: its tokenizer has {} ids, but {} {} has a vocabulary of {}; give the tokenizer "
      "that belongs to the model, or a model with a larger vocab_size",
      run.config().hf_assets_path, tokens, run.config().model_spec.name, run.config().model_spec.flavor,
      rows);
}

LoaderOptions loader_options(const TrainingRun& run) {
  return {.seq_len = run.config().training.seq_len,
          .local_batch_size = run.config().training.local_batch_size,
          .dp_rank = run.world->mesh().coordinate(Axis::batch),
          .dp_world = run.dp()};
}

void open_data(TrainingRun& run) {
  run.data.emplace(run.config().dataloader, run.tokenizer, loader_options(run));
}

void open_validation(TrainingRun& run) {
  if (!run.config().validator.enable) return;
  run.validator.emplace(run.config().validator, run.tokenizer, loader_options(run));
}

void build_checkpoints(TrainingRun& run) {
  ShardGroups groups;
  if (run.launch.world_size > 1) {
    groups = {.shard = &run.world->group(Axis::fsdp),
              .tensor = &run.world->group(Axis::tp),
              .replicate = &run.world->group(Axis::dp_replicate)};
  }
  run.checkpoints.emplace(run.config().checkpoint,
                          CheckpointManager::Paths{.dump_folder = run.config().dump_folder,
                                                   .hf_assets_path = run.config().hf_assets_path},
                          groups);
}

void report_run(TrainingRun& run) {
  const TrainingConfig& training = run.config().training;
  log_info(
      "Trainer is initialized with local batch size {}, global batch size {}, gradient accumulation steps "
      "{}, "
      "sequence length {}, total steps {} (warmup {})",
      training.local_batch_size, global_batch_size(training, run.dp()), run.accumulation_steps,
      training.seq_len, training.steps, run.config().lr_scheduler.warmup_steps);
}

// Random weights are made only when none are loaded: filling billions of them takes a while.
void give_weights(TrainingRun& run) {
  const Phase phase("weights");
  LanguageModel& model = *run.model_parts.front();
  if (const auto loaded = run.checkpoints->load(hf_model(model, run.config().model_spec))) {
    run.step = loaded->step;
    if (run.step >= run.config().training.steps) {
      log_warning(
          "{} is step {} of {}: nothing is left to train; raise training.steps, or choose another "
          "dump_folder",
          loaded->path.string(), run.step, run.config().training.steps);
    }
    return;
  }
  fill(model, run.seed);
}

// The order of the reference's banner; what can fail without the model's memory comes before step 1 in any
// case.
constexpr void (*kConstructionSteps[])(TrainingRun&) = {
    place_in_job,      check_paths,     choose_device,    prepare_dump_folder, report_config,
    build_mesh,        set_determinism, report_overrides, check_assets_of_run, check_shapes_of_run,
    build_model_parts, build_metrics,   set_recompute,    shard_model,         report_capacity,
    build_optimizer,   load_tokenizer,  open_data,        open_validation,     build_checkpoints,
    report_run,        give_weights,
};

}  // namespace

std::vector<Module::NamedParameter> TrainingRun::parameters() const {
  std::vector<Module::NamedParameter> all;
  for (const auto& model : model_parts) {
    const auto part = model->named_parameters();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TrainingRun build_run(RunRequest request) {
  TrainingRun run{.request = std::move(request)};
  for (const auto step : kConstructionSteps) step(run);
  return run;
}

}  // namespace titan
