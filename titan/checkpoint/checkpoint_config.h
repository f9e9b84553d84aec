#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// Number format of exported weights.
enum class ExportDtype { float16, bfloat16, float32 };
template <>
inline constexpr auto names<ExportDtype> =
    std::to_array<Named<ExportDtype>>({{"float16", ExportDtype::float16},
                                       {"bfloat16", ExportDtype::bfloat16},
                                       {"float32", ExportDtype::float32}});

/// Whether a save holds up training.
enum class AsyncMode { disabled, async, async_with_pinned_mem };
template <>
inline constexpr auto names<AsyncMode> =
    std::to_array<Named<AsyncMode>>({{"disabled", AsyncMode::disabled},
                                     {"async", AsyncMode::async},
                                     {"async_with_pinned_mem", AsyncMode::async_with_pinned_mem}});

/// What is loaded before step 1 and saved after the last one. Only Hugging Face files are built so far:
/// everything that needs a checkpoint with optimizer and data state is refused by name.
struct CheckpointConfig {
  bool enable = false;
  std::string folder = "checkpoint";
  int64_t interval = 500;
  std::optional<std::string> initial_load_path;
  bool initial_load_model_only = true;
  bool initial_load_in_hf = false;
  bool initial_load_in_hf_quantized = false;
  bool last_save_model_only = true;
  bool last_save_in_hf = false;
  ExportDtype export_dtype = ExportDtype::float32;
  bool export_tied_head = false;
  AsyncMode async_mode = AsyncMode::disabled;
  int64_t keep_latest_k = 10;
  int64_t load_step = -1;
  std::vector<std::string> exclude_from_loading;
  bool enable_first_step_checkpoint = false;
  bool create_seed_checkpoint = false;
  bool load_only = false;

  void describe(Fields& f) {
    f("enable", enable, "Load weights before step 1 and save them after the last step");
    f("folder", folder, "Folder of the step-N folders, under dump_folder");
    f("interval", interval, "Steps between saves; one before the last step is not built yet and stops");
    f("initial_load_path", initial_load_path, "Absolute path loaded when the run's folder holds no step yet");
    f("initial_load_model_only", initial_load_model_only, "Load weights only, no optimizer or data state");
    f("initial_load_in_hf", initial_load_in_hf,
      "initial_load_path (or hf_assets_path) holds Hugging Face files");
    f("initial_load_in_hf_quantized", initial_load_in_hf_quantized,
      "The Hugging Face files hold FP8 blocks with weight_scale_inv; they are dequantised");
    f("last_save_model_only", last_save_model_only, "The last step saves weights only");
    f("last_save_in_hf", last_save_in_hf, "The last step saves Hugging Face files");
    f("export_dtype", export_dtype, "Number format of the last save");
    f("export_tied_head", export_tied_head,
      "Also write lm_head.weight of a tied model, for tools that want it");
    f("async_mode", async_mode, "Save in the background", Status::refused);
    f("keep_latest_k", keep_latest_k, "Step folders kept; 0 keeps all", Status::refused);
    f("load_step", load_step, "Step to load; -1 is the latest", Status::refused);
    f("exclude_from_loading", exclude_from_loading, "Parts of a checkpoint that are not loaded",
      Status::refused);
    f("enable_first_step_checkpoint", enable_first_step_checkpoint, "Also save after step 1",
      Status::refused);
    f("create_seed_checkpoint", create_seed_checkpoint, "Save step 0 and stop", Status::refused);
    f("load_only", load_only, "Never save");
  }

  /// ConfigError naming the field when fields contradict one another or need what is not built yet.
  void validate() const;

  /// The checks that need the run: ConfigError when a save would fall before the last of `steps` steps, or
  /// when weights are to be loaded from `hf_assets_path` and none is given.
  void validate_run(int64_t steps, const std::string& hf_assets_path) const;
};

}  // namespace titan
