#include "titan/checkpoint/manager.h"

#include <algorithm>
#include <utility>

#include "titan/base/clock.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/checkpoint/hf_export.h"
#include "titan/checkpoint/hf_import.h"
#include "titan/checkpoint/step_folders.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

at::ScalarType torch_dtype(ExportDtype dtype) {
  switch (dtype) {
    case ExportDtype::float16:
      return at::kHalf;
    case ExportDtype::bfloat16:
      return at::kBFloat16;
    case ExportDtype::float32:
      return at::kFloat;
  }
  check(false, "every export dtype is listed");
  return at::kFloat;
}

std::string_view export_dtype_name(ExportDtype dtype) {
  for (const auto& [name, value] : names<ExportDtype>) {
    if (value == dtype) return name;
  }
  return "";
}

bool has_text(const std::optional<std::string>& text) { return text && !text->empty(); }

}  // namespace

CheckpointManager::CheckpointManager(CheckpointConfig config, Paths paths, ShardGroups groups)
    : config_(std::move(config)),
      paths_(std::move(paths)),
      groups_(groups),
      folder_(paths_.dump_folder / config_.folder) {
  if (!config_.enable) return;
  say("Checkpointing active. Checkpoints will be loaded from and saved to {}", folder_.string());
  if (config_.load_only) return;
  SharedAttempt attempt(groups_);
  if (groups_.writes()) {
    attempt.run([&] {
      require_writable_folder(folder_, "checkpoint.folder");
      clean_staging(folder_);
    });
  }
  attempt.agree();
}

std::vector<fs::path> CheckpointManager::folders_with_config() const {
  std::vector<fs::path> folders;
  if (!config_.enable) return folders;
  if (const auto steps = find_steps(folder_); !steps.empty()) {
    folders.push_back(steps.back().path);
  } else if (config_.initial_load_in_hf) {
    folders.push_back(initial_path());
  }
  const bool exports = config_.last_save_in_hf && !config_.load_only && !paths_.hf_assets_path.empty();
  if (exports && !std::ranges::count(folders, paths_.hf_assets_path))
    folders.push_back(paths_.hf_assets_path);
  return folders;
}

fs::path CheckpointManager::initial_path() const {
  return has_text(config_.initial_load_path) ? fs::path(*config_.initial_load_path) : paths_.hf_assets_path;
}

std::optional<LoadResult> CheckpointManager::load(const HfModel& model) const {
  if (!config_.enable) return {};
  Source source;
  SharedAttempt attempt(groups_);
  attempt.run([&] { source = find_source(); });
  attempt.agree();
  if (!same_everywhere(groups_, source.path.empty() ? -1 : source.step)) {
    throw ValueError(
        "the ranks see different steps in checkpoint.folder {}: every node has to see the same folder",
        folder_.string());
  }
  if (source.path.empty()) {
    say("No checkpoint was provided, this is a fresh start.");
    return {};
  }
  attempt.run([&] { import_and_log(model, source); });
  attempt.agree();
  if (source.step > 0) {
    warn(
        "{} holds weights only: training goes on after step {} with a fresh optimizer and data from the "
        "beginning",
        source.path.string(), source.step);
  }
  return LoadResult{source.path, source.step};
}

CheckpointManager::Source CheckpointManager::find_source() const {
  const auto steps = find_steps(folder_);
  if (steps.empty()) return config_.initial_load_in_hf ? initial_source() : Source{};
  const StepFolder& latest = steps.back();
  if (!latest.in_hf) {
    throw ValueError(
        "{} is a native checkpoint, which is not built yet: give another checkpoint.folder or remove it",
        latest.path.string());
  }
  if (has_text(config_.initial_load_path) || config_.initial_load_in_hf) {
    warn(
        "checkpoint.initial_load_path and initial_load_in_hf are passed over: {} already holds a step of "
        "this run",
        folder_.string());
  }
  return {.path = latest.path, .step = latest.step};
}

CheckpointManager::Source CheckpointManager::initial_source() const {
  const fs::path path = initial_path();
  const std::string_view flag =
      has_text(config_.initial_load_path) ? "--checkpoint.initial_load_path" : "--hf_assets_path";
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw ValueError(
        "{} {} does not exist: it should be a folder with model.safetensors or its shards and index", flag,
        path.string());
  }
  say("Loading from HF safetensors from {}: {}", flag, path.string());
  return {.path = path, .quantized = config_.initial_load_in_hf_quantized};
}

void CheckpointManager::import_and_log(const HfModel& model, const Source& source) const {
  say("Loading the checkpoint from {}.", source.path.string());
  const Stopwatch watch;
  const ImportReport report = hf_import(model, source.path, {.quantized = source.quantized});
  for (const std::string& note : report.notes) say("{}", note);
  if (source.quantized && report.dequantized == 0) {
    warn("checkpoint.initial_load_in_hf_quantized has no effect: no tensor of {} is quantised",
         source.path.string());
  }
  for (const std::string& name : report.ignored) say("Not needed and not loaded: {}", name);
  say("Loaded {} tensors, {} bytes{}; none missing, none unexpected.", report.tensors,
      with_commas(report.bytes), groups_.several() ? " on this rank" : "");
  say("Finished loading the checkpoint in {} seconds.", fixed(watch.seconds(), 2));
}

bool CheckpointManager::save_last(int64_t step, const HfModel& model) const {
  if (!config_.enable || config_.load_only) return false;
  say("Saving the checkpoint.");
  say("Saving a model only checkpoint in torch.{} at last step, step {}.",
      export_dtype_name(config_.export_dtype), step);
  const Stopwatch watch;
  hf_export(model, folder_ / format("step-{}", step),
            {.dtype = torch_dtype(config_.export_dtype),
             .assets = paths_.hf_assets_path,
             .tied_head = config_.export_tied_head},
            groups_);
  say("Last step checkpoint completed in {}s", fixed(watch.seconds(), 2));
  return true;
}

}  // namespace titan
