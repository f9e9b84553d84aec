#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "titan/config/fields.h"

namespace titan {

/// Traces and memory snapshots.
struct ProfilerConfig {
  bool enable_profiling = false;
  std::string save_traces_folder = "profiling/traces";
  int64_t profile_freq = 10;
  int64_t profiler_warmup = 3;
  int64_t profiler_active = 1;
  std::optional<int64_t> profiler_repeat = {};
  std::optional<int64_t> profiler_skip_first = {};
  std::optional<int64_t> profiler_skip_first_wait = {};
  bool enable_memory_snapshot = false;
  std::optional<int64_t> memory_snapshot_freq = {};
  std::string save_memory_snapshot_folder = "profiling/memory_snapshot";
  int64_t memory_snapshot_max_entries = 1000000;

  void describe(Fields& f) {
    f("enable_profiling", enable_profiling, "Write traces");
    f("save_traces_folder", save_traces_folder, "Folder of the traces, under dump_folder");
    f("profile_freq", profile_freq, "Steps from one trace to the next: waiting, warm-up and active ones");
    f("profiler_warmup", profiler_warmup, "Steps of warm-up before a trace");
    f("profiler_active", profiler_active, "Steps in a trace");
    f("profiler_repeat", profiler_repeat, "Number of traces; none or 0: as many as the run has");
    f("profiler_skip_first", profiler_skip_first, "Steps at the start that belong to no cycle");
    f("profiler_skip_first_wait", profiler_skip_first_wait, "Not 0: the first cycle begins with its warm-up");
    f("enable_memory_snapshot", enable_memory_snapshot,
      "Write memory snapshots: the history of CUDA's allocator, which no other device has", Status::refused);
    f("memory_snapshot_freq", memory_snapshot_freq, "Steps between snapshots", Status::refused);
    f("save_memory_snapshot_folder", save_memory_snapshot_folder,
      "Folder of the snapshots, under dump_folder", Status::refused);
    f("memory_snapshot_max_entries", memory_snapshot_max_entries, "Events a snapshot holds", Status::refused);
  }

  /// ConfigError naming the fields where, with profiling on, they make no schedule.
  void validate() const;
};

}  // namespace titan
