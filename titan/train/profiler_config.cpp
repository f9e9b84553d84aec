#include "titan/train/profiler_config.h"

#include <string_view>

#include "titan/base/error.h"

namespace titan {
namespace {

void require_at_least(int64_t least, std::string_view name, int64_t value) {
  if (value >= least) return;
  throw ConfigError("profiler.{} must be {} or more (given: {})", name, least, value);
}

}  // namespace

void ProfilerConfig::validate() const {
  if (!enable_profiling) return;
  if (save_traces_folder.empty()) {
    throw ConfigError(
        "profiler.save_traces_folder is empty: give a folder name, for example 'profiling/traces'");
  }
  require_at_least(0, "profiler_warmup", profiler_warmup);
  require_at_least(1, "profiler_active", profiler_active);
  require_at_least(0, "profiler_repeat", profiler_repeat.value_or(0));
  require_at_least(0, "profiler_skip_first", profiler_skip_first.value_or(0));
  // The difference cannot overflow, a sum could.
  if (profile_freq - profiler_active >= profiler_warmup) return;
  throw ConfigError(
      "profiler.profile_freq {} is less than profiler.profiler_warmup {} + profiler.profiler_active {}: "
      "raise it, or "
      "lower those",
      profile_freq, profiler_warmup, profiler_active);
}

}  // namespace titan
