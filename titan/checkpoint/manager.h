#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "titan/checkpoint/checkpoint_config.h"
#include "titan/checkpoint/hf_model.h"

namespace titan {

/// Where a run's weights came from.
struct LoadResult {
  std::filesystem::path path;
  /// The step the weights belong to: 0 for an initial load, N for step-N of the run's own folder. Training
  /// goes on at step + 1.
  int64_t step = 0;
};

/// Loads weights before step 1 and saves them after the last one, as the section `checkpoint` says.
///
/// A step-N folder is loadable when it holds model.safetensors.index.json (exports always write one). A run
/// that finds one in its own folder starts from the latest: its weights and step number, with fresh
/// optimizer, schedule and data, which is said in a warning; an initial load is then passed over, also with a
/// warning.
class CheckpointManager {
 public:
  struct Paths {
    std::filesystem::path dump_folder;
    std::filesystem::path hf_assets_path;
  };

  /// Removes what a killed save left in the folder, proves that it can be written, and logs it. Does nothing
  /// when checkpoints are off. `config` has been validated.
  CheckpointManager(CheckpointConfig config, Paths paths);

  /// Fills the model, or says that this is a fresh start. ValueError as hf_import, and when a folder that was
  /// named does not exist.
  std::optional<LoadResult> load(const HfModel& model) const;

  /// The folders whose config.json (where there is one) must agree with the model: the one load() reads
  /// weights from, and the one save_last() copies config.json from.
  std::vector<std::filesystem::path> folders_with_config() const;

  /// Saves step-N as Hugging Face files; false when checkpoints are off or load_only.
  bool save_last(int64_t step, const HfModel& model) const;

 private:
  std::filesystem::path initial_path() const;
  std::optional<LoadResult> load_initial(const HfModel& model) const;

  CheckpointConfig config_;
  Paths paths_;
  std::filesystem::path folder_;
};

}  // namespace titan
