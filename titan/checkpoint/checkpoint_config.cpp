#include "titan/checkpoint/checkpoint_config.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "titan/base/error.h"

namespace titan {
namespace {

bool is_remote(std::string_view path) { return path.find("://") != path.npos; }

void validate_saving(const CheckpointConfig& config) {
  if (config.last_save_in_hf && !config.last_save_model_only) {
    throw ConfigError(
        "checkpoint.last_save_in_hf writes weights only: it needs checkpoint.last_save_model_only (given: "
        "false)");
  }
  if (!config.last_save_model_only) {
    throw ConfigError(
        "checkpoint.last_save_model_only=false is not built yet: only Hugging Face files can be saved; pass "
        "--checkpoint.last_save_in_hf, or --checkpoint.load_only to save nothing");
  }
  if (!config.last_save_in_hf) {
    throw ConfigError(
        "checkpoint.last_save_in_hf=false is not built yet: only Hugging Face files can be saved; pass "
        "--checkpoint.last_save_in_hf, or --checkpoint.load_only to save nothing");
  }
}

void validate_loading(const CheckpointConfig& config) {
  const bool has_path = config.initial_load_path && !config.initial_load_path->empty();
  if (config.initial_load_in_hf && !config.initial_load_model_only) {
    throw ConfigError(
        "checkpoint.initial_load_in_hf loads weights only: it needs checkpoint.initial_load_model_only "
        "(given: "
        "false)");
  }
  if (!config.initial_load_model_only) {
    throw ConfigError(
        "checkpoint.initial_load_model_only=false is not built yet: only Hugging Face weights can be loaded, "
        "with "
        "--checkpoint.initial_load_in_hf");
  }
  if (config.initial_load_in_hf_quantized && !config.initial_load_in_hf) {
    throw ConfigError("checkpoint.initial_load_in_hf_quantized needs checkpoint.initial_load_in_hf");
  }
  if (config.initial_load_in_hf_quantized && !has_path) {
    throw ConfigError(
        "checkpoint.initial_load_in_hf_quantized needs checkpoint.initial_load_path: the folder of the "
        "quantised "
        "files");
  }
  if (!has_path) return;
  if (is_remote(*config.initial_load_path)) {
    throw ConfigError(
        "checkpoint.initial_load_path '{}' is remote, which is not built yet: give a local folder",
        *config.initial_load_path);
  }
  if (!std::filesystem::path(*config.initial_load_path).is_absolute()) {
    throw ConfigError("checkpoint.initial_load_path '{}' must be an absolute path",
                      *config.initial_load_path);
  }
  if (!config.initial_load_in_hf) {
    throw ConfigError(
        "checkpoint.initial_load_path '{}' without checkpoint.initial_load_in_hf asks for a native "
        "checkpoint, which "
        "is not built yet; pass --checkpoint.initial_load_in_hf for Hugging Face files",
        *config.initial_load_path);
  }
}

}  // namespace

void CheckpointConfig::validate() const {
  if (interval < 1) throw ConfigError("checkpoint.interval must be at least 1 (given: {})", interval);
  if (std::ranges::find(exclude_from_loading, "model") != exclude_from_loading.end()) {
    throw ConfigError("checkpoint.exclude_from_loading: 'model' cannot be excluded");
  }
  if (!enable) return;
  if (folder.empty())
    throw ConfigError("checkpoint.folder is empty: give a folder name, for example 'checkpoint'");
  if (is_remote(folder)) {
    throw ConfigError("checkpoint.folder '{}' is remote, which is not built yet: give a local folder",
                      folder);
  }
  validate_loading(*this);
  if (!load_only) validate_saving(*this);
}

void CheckpointConfig::validate_run(int64_t steps, const std::string& hf_assets_path) const {
  if (!enable) return;
  if (!load_only && interval < steps) {
    throw ConfigError(
        "checkpoint.interval {} asks for a save before the last step {}, which is not built yet: set it to "
        "{} or "
        "more to save the last step only",
        interval, steps, steps);
  }
  if (initial_load_in_hf && (!initial_load_path || initial_load_path->empty()) && hf_assets_path.empty()) {
    throw ConfigError(
        "checkpoint.initial_load_in_hf has nothing to load from: set checkpoint.initial_load_path or "
        "hf_assets_path");
  }
}

}  // namespace titan
