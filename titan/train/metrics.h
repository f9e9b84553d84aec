#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "titan/distributed/world.h"
#include "titan/train/device_activity.h"
#include "titan/train/device_memory.h"
#include "titan/train/log_line.h"
#include "titan/train/metrics_config.h"
#include "titan/train/peak_flops.h"
#include "titan/train/tensorboard.h"

namespace titan {

/// What one optimizer step found out. Losses are means over valid tokens.
struct StepResult {
  int64_t step = 0;         ///< counts from 1
  double avg_loss = 0;      ///< over the whole global batch
  double max_loss = 0;      ///< the largest of the data-parallel ranks' own means
  double grad_norm = 0;     ///< before clipping
  int64_t tokens_seen = 0;  ///< input tokens of all ranks since step 1, resumed steps included
};

/// Appends one JSON object a line; flushed after each so that a crash loses nothing logged.
class JsonLinesWriter {
 public:
  /// Opens `path` for appending: an earlier run's lines stay. ValueError when it cannot be written.
  explicit JsonLinesWriter(const std::filesystem::path& path);

  /// {"step": 10, "time": seconds since 1970, "tag": number, ...}. A failed write warns once and training
  /// goes on.
  void add_scalars(int64_t step, std::span<const Scalar> scalars);

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

/// What the metrics need to know of the run.
struct MetricsContext {
  std::filesystem::path dump_folder;
  DeviceInfo device;
  PeakFlops peak;
  int64_t flops_per_token = 0;  ///< forward and backward
  /// The ranks whose numbers are brought together.
  World* world = nullptr;
};

/// Collects what happens between two log lines and writes it to the log, TensorBoard and the JSON-lines file.
/// Formulas and tags: torchtitan's `components/metrics.py`.
class MetricsProcessor {
 public:
  /// Creates the files that `config` asks for, on rank 0 or with save_for_all_ranks on each; ValueError when
  /// a folder cannot be written.
  MetricsProcessor(const MetricsConfig& config, MetricsContext context);

  /// Step 1 and every multiple of metrics.log_freq.
  bool should_log(int64_t step) const;

  /// Begins the first window: what was done before the training loop does not count.
  void start();

  /// Notes one micro-batch: the seconds it took to get and its number of tokens.
  void add_batch(double loading_seconds, int64_t num_tokens);

  /// Notes one finished optimizer step of the window.
  void count_step(int64_t step);

  /// Notes that something between the steps is done, "saving", which is not to run operators of a device that
  /// it has not seen.
  void count_other(std::string_view what);

  /// Writes the window that ends now and starts the next; called by all ranks alike. `extra` goes to the
  /// files only (learning rates).
  void log_step(const StepResult& result, std::span<const Scalar> extra);

  /// Writes a validation round that took `seconds` for `num_tokens`; training's window does not count its
  /// time.
  void log_validation(int64_t step, double loss, int64_t num_tokens, double seconds);

  /// Takes `seconds` out of the current window (time spent on something that is not training).
  void exclude(double seconds) { excluded_seconds_ += seconds; }

  const Colors& colors() const { return colors_; }
  const PeakFlops& peak() const { return context_.peak; }

 private:
  void start_window();
  /// What only all ranks together can say of a window: tokens a second of all, waiting, the fullest rank.
  void add_rank_scalars(std::vector<Scalar>& scalars, double tps, double seconds, const MemoryStats& memory);
  void write(int64_t step, std::span<const Scalar> scalars);

  using Clock = std::chrono::steady_clock;

  MetricsConfig config_;
  MetricsContext context_;
  Colors colors_;
  std::optional<EventFileWriter> tensorboard_;
  std::optional<JsonLinesWriter> json_lines_;

  Clock::time_point window_start_ = Clock::now();
  double excluded_seconds_ = 0, loading_seconds_ = 0;
  GroupCounters carried_before_;
  DeviceActivity activity_;
  int64_t num_tokens_ = 0, num_batches_ = 0, num_steps_ = 0;
};

}  // namespace titan
