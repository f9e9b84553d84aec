#include "titan/train/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "titan/base/strings.h"

namespace titan {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr const char* kEraseLine = "\033[2K";

std::string two_units(int64_t major, const char* major_unit, int64_t minor, const char* minor_unit) {
  return format("{}{}{}{}{}", major, major_unit, minor < 10 ? "0" : "", minor, minor_unit);
}

}  // namespace

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto total = static_cast<int64_t>(std::min(seconds, 99.0 * 365 * 86400) + 0.5);
  if (total < 60) return format("{}s", total);
  if (total < 3600) return two_units(total / 60, "m", total % 60, "s");
  if (total < 86400) return two_units(total / 3600, "h", total % 3600 / 60, "m");
  return two_units(total / 86400, "d", total % 86400 / 3600, "h");
}

std::string progress_text(int64_t step, int64_t last_step, double steps_per_second) {
  const double share =
      last_step > 0 ? 100.0 * static_cast<double>(step) / static_cast<double>(last_step) : 100.0;
  const double left = static_cast<double>(last_step - step) / steps_per_second;
  return format("{}/{} {}% {}/s {} left", step, last_step, fixed(share, 0),
                fixed(steps_per_second, steps_per_second < 10 ? 2 : 0), human_duration(left))
      .substr(0, 44);
}

Progress::Progress(int64_t first_step, int64_t last_step)
    : first_step_(first_step),
      last_step_(last_step),
      enabled_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()) {}

// The cursor goes back to the first column, so the next log line writes over the text: every log line begins
// with 48 characters of time and level, more than the text ever has. Neither side needs to know of the other.
void Progress::update(int64_t step) {
  const auto now = Clock::now();
  if (!enabled_ || now - last_draw_ < kRedraw) return;
  last_draw_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const std::string text = progress_text(step, last_step_, static_cast<double>(step - first_step_) / elapsed);
  std::fprintf(stderr, "%s%s\r", kEraseLine, text.c_str());
  std::fflush(stderr);
}

void Progress::clear() {
  if (enabled_) std::fprintf(stderr, "%s", kEraseLine);
}

}  // namespace titan
