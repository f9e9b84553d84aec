#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "titan/base/log.h"
#include "titan/checkpoint/checkpoint_config.h"
#include "titan/checkpoint/hf_model.h"
#include "titan/checkpoint/shard_groups.h"

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
///
/// Every rank of the job has one and calls the same functions at the same point. One rank writes, cleans the
/// folder and logs; what fails on any rank is thrown on all.
class CheckpointManager {
 public:
  struct Paths {
    std::filesystem::path dump_folder;
    std::filesystem::path hf_assets_path;
  };

  /// Removes what a killed save left in the folder, proves that it can be written, and logs it. Does nothing
  /// when checkpoints are off. `config` has been validated.
  CheckpointManager(CheckpointConfig config, Paths paths, ShardGroups groups = {});

  /// Fills this rank's part of the model, or says that this is a fresh start. ValueError as hf_import, when a
  /// folder that was named does not exist, and when ranks see different steps in the run's folder.
  std::optional<LoadResult> load(const HfModel& model) const;

  /// The folders whose config.json (where there is one) must agree with the model: the one load() reads
  /// weights from, and the one save_last() copies config.json from.
  std::vector<std::filesystem::path> folders_with_config() const;

  /// Saves step-N as Hugging Face files; false when checkpoints are off or load_only.
  bool save_last(int64_t step, const HfModel& model) const;

 private:
  /// Where load() reads from; no path: nowhere.
  struct Source {
    std::filesystem::path path;
    int64_t step = 0;
    bool quantized = false;
  };

  std::filesystem::path initial_path() const;
  Source find_source() const;
  Source initial_source() const;
  void import_and_log(const HfModel& model, const Source& source) const;

  template <class... Args>
  void say(std::string_view fmt, const Args&... args) const {
    if (groups_.writes()) log_info(fmt, args...);
  }
  template <class... Args>
  void warn(std::string_view fmt, const Args&... args) const {
    if (groups_.writes()) log_warning(fmt, args...);
  }

  CheckpointConfig config_;
  Paths paths_;
  ShardGroups groups_;
  std::filesystem::path folder_;
};

}  // namespace titan
