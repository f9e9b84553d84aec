#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "titan/train/profiler_config.h"

namespace titan {

/// What is done during a step.
enum class ProfilerAction {
  none,
  warmup,           ///< tracing is made ready, nothing is kept
  record,           ///< recorded
  record_and_save,  ///< recorded, and the trace is written when the step ends
};

/// The action during the training step that follows `step` finished ones. After profiler_skip_first steps,
/// cycles of profile_freq steps: waiting, profiler_warmup, profiler_active; as torch.profiler.schedule.
ProfilerAction profiler_action(const ProfilerConfig& config, int64_t step);

/// Writes traces of training steps that chrome://tracing and Perfetto show: operators with their shapes and
/// the ranges named by ProfileRange. All calls come from the thread that trains.
class Profiler {
 public:
  /// `step` steps are done already. With enable_profiling off it never does anything. ValueError when the
  /// folder of the traces cannot be written.
  Profiler(const ProfilerConfig& config, const std::filesystem::path& dump_folder, int64_t rank,
           int64_t step = 0);
  ~Profiler();

  /// After training step `step` (the first is 1). Where a cycle ends, writes
  /// DUMP_FOLDER/save_traces_folder/iteration_STEP/rankRANK_trace.json; a trace that cannot be written is
  /// warned about and does not stop the training.
  void step(int64_t step);

  /// After the last step: writes what a cycle under way has recorded.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace titan
