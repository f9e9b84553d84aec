#include "titan/ops/threads.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/number.h"

namespace titan {
namespace {

std::optional<int64_t> positive_env(const char* name) {
  const auto text = env(name);
  if (!text) return std::nullopt;
  const auto value = parse_number<int64_t>(*text);
  if (!value || *value < 1 || *value > 4096) {
    throw ConfigError("{} must be a number from 1 to 4096 (given: '{}')", name, *text);
  }
  return value;
}

int64_t usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

int64_t num_threads() {
  if (const auto wanted = positive_env("TITAN_NUM_THREADS")) return *wanted;
  return std::max<int64_t>(1, usable_cores() / positive_env("LOCAL_WORLD_SIZE").value_or(1));
}

void set_up_threads() { at::set_num_threads(static_cast<int>(num_threads())); }

}  // namespace titan
