#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace titan {

/// "3m12s", "2h05m", "4d03h": a duration in two units, for people.
std::string human_duration(double seconds);

/// The text of the progress line: step, share done, steps a second, time left. At most 44 characters.
std::string progress_text(int64_t step, int64_t last_step, double steps_per_second);

/// Shows how far a run is on the terminal it is attached to; silent when standard error is not a terminal.
class Progress {
 public:
  /// Counts from `first_step` (the step before the first one of this process) to `last_step`.
  Progress(int64_t first_step, int64_t last_step);

  /// Redraws the line after `step`, at most five times a second.
  void update(int64_t step);

  /// Removes the line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  int64_t first_step_, last_step_;
  bool enabled_;
  Clock::time_point start_, last_draw_{};
};

}  // namespace titan
