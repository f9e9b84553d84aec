#pragma once

#include <filesystem>
#include <string>

#include "titan/launch/options.h"

namespace titan {

/// Where the files of a run's workers are: DIR/RUN_ID_xxxxxx/attempt_N/LOCAL_RANK/{stdout.log, stderr.log,
/// error.json}. DIR is --log_dir or a temporary folder, which goes again where no log was asked for.
class LogFolder {
 public:
  /// Throws ValueError where no folder can be made.
  explicit LogFolder(const TorchrunOptions& options);
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;

  /// Makes the folders of one attempt anew.
  void start_attempt(int64_t restart_count, int64_t local_world_size);

  /// False with --log_dir=/dev/null: then there are no files.
  bool exists() const { return !run_folder_.empty(); }
  /// Whether the files are there after the run.
  bool kept() const { return exists() && temporary_.empty(); }
  /// "" where there are no files; else the path of a worker's file, or of one of the whole attempt.
  std::string worker_file(int64_t local_rank, std::string_view name) const;
  std::string attempt_file(std::string_view name) const;

 private:
  std::filesystem::path run_folder_, attempt_folder_;
  std::filesystem::path temporary_;  ///< removed at the end
};

}  // namespace titan
