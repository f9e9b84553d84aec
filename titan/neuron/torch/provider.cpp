#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>
#include <malloc.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "titan/base/device_provider.h"
#include "titan/base/error.h"
#include "titan/neuron/torch/copy.h"
#include "titan/neuron/torch/core.h"
#include "titan/neuron/torch/fallback.h"
#include "titan/neuron/torch/hooks.h"
#include "titan/neuron/torch/kernel_work.h"
#include "titan/neuron/torch/memory.h"
#include "titan/neuron/torch/storage_ops.h"
#include "titan/neuron/torch/streams.h"

namespace titan::neuron {
namespace {

void register_device() {
  c10::register_privateuse1_backend("neuron");
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &hbm_allocator());
  register_guard();
  register_hooks();
  register_storage_operators();
  register_copies();
  register_operators();
}

/// Backward runs on a thread of its own, whose memory the C library would take from, and give back to, a heap
/// of its own: four times the page faults.
void share_one_heap() { mallopt(M_ARENA_MAX, 1); }

const char* start(const DeviceStart* process) {
  static std::string error;
  try {
    share_one_heap();
    start_core(*process);
    register_device();
    return nullptr;
  } catch (const ConfigError& config) {
    error = std::string("config: ") + config.what();
  } catch (const std::exception& other) {
    error = other.what();
  }
  return error.c_str();
}

void describe(DeviceDescription* description) {
  *description = {.name = core().name.c_str(),
                  .capacity_bytes = core().hbm.capacity(),
                  .peak_flops = core().instance.peak_flops(),
                  .emulated = 1};
}

/// torch's flat keys of one kind of count, made once: their texts live for ever.
struct CountKeys {
  explicit CountKeys(const std::string& kind)
      : texts{kind + ".all.current", kind + ".all.peak", kind + ".all.allocated", kind + ".all.freed"} {}
  std::array<std::string, 4> texts;
};

void add_counts(std::vector<DeviceStatistic>& all, const HbmCount& count, std::span<const CountKeys> kinds) {
  const std::array values = {count.current, count.peak, count.allocated, count.freed};
  for (const CountKeys& keys : kinds) {
    for (size_t i = 0; i < values.size(); ++i) {
      all.push_back({keys.texts[i].c_str(), static_cast<double>(values[i])});
    }
  }
}

/// Nothing is cached or rounded up: what is allocated, reserved, active and requested is the same.
std::vector<DeviceStatistic> memory_statistics() {
  static const std::array bytes = {CountKeys("allocated_bytes"), CountKeys("reserved_bytes"),
                                   CountKeys("active_bytes"), CountKeys("requested_bytes")};
  static const std::array pieces = {CountKeys("allocation"), CountKeys("active"), CountKeys("segment")};
  const HbmStatistics now = core().hbm.statistics();
  std::vector<DeviceStatistic> all;
  add_counts(all, now.bytes, bytes);
  add_counts(all, now.allocations, pieces);
  all.push_back({"num_alloc_retries", static_cast<double>(now.num_alloc_retries)});
  all.push_back({"num_ooms", static_cast<double>(now.num_ooms)});
  return all;
}

void add_compilations(std::vector<DeviceStatistic>& all) {
  const CompilationStatistics now = core().cache.statistics();
  const auto number = [](int64_t count) { return static_cast<double>(count); };
  all.insert(all.end(), {{"total_entries", number(now.total_entries)},
                         {"in_memory_hits", number(now.in_memory_hits)},
                         {"in_memory_misses", number(now.in_memory_misses)},
                         {"persistent_hits", number(now.persistent_hits)},
                         {"persistent_misses", number(now.persistent_misses)},
                         {"cache_hits", number(now.cache_hits)},
                         {"cache_misses", number(now.cache_misses)},
                         {"hit_rate", now.hit_rate()},
                         {"memory_usage_bytes", number(now.memory_usage_bytes)},
                         {"total_compilation_time_ms", now.total_compilation_time_ms},
                         {"evictions_performed", number(now.evictions_performed)},
                         {"total_compilations", number(now.total_compilations)},
                         {"max_cache_size_bytes", number(now.max_cache_size_bytes)},
                         {"max_cache_entries", number(now.max_cache_entries)},
                         {"memory_utilization_ratio", now.memory_utilization_ratio()}});
}

void add_simulated_time(std::vector<DeviceStatistic>& all) {
  const EngineTimes busy = core().timeline.busy();
  all.insert(all.end(), {{"simulated.tensor_s", busy.tensor},
                         {"simulated.vector_s", busy.vector},
                         {"simulated.scalar_s", busy.scalar},
                         {"simulated.gpsimd_s", busy.gpsimd},
                         {"simulated.hbm_s", busy.hbm},
                         {"simulated.link_s", busy.link + core().link_seconds}});
}

int64_t statistics(DeviceStatistic* out, int64_t capacity) {
  std::vector<DeviceStatistic> all = memory_statistics();
  add_compilations(all);
  add_simulated_time(all);
  all.push_back({"operator_calls", static_cast<double>(core().operator_calls)});
  const auto count = static_cast<int64_t>(all.size());
  std::copy_n(all.begin(), std::min(count, capacity), out);
  return count;
}

void set_phase(const char* phase) { core().phase = phase; }

void count_link_bytes(double bytes) {
  core().link_seconds = core().link_seconds + bytes / core().rates.link_bytes();
}

void count_kernel(const DeviceKernelWork* work) { note_kernel(*work); }

void reset_peak_memory() { core().hbm.reset_peak(); }

constexpr DeviceProvider kProvider = {.abi = kDeviceProviderAbi,
                                      .torch_version = TORCH_VERSION,
                                      .device_type = "neuron",
                                      .start = &start,
                                      .describe = &describe,
                                      .statistics = &statistics,
                                      .reset_peak_memory = &reset_peak_memory,
                                      .set_phase = &set_phase,
                                      .count_link_bytes = &count_link_bytes,
                                      .count_kernel = &count_kernel};

}  // namespace
}  // namespace titan::neuron

extern "C" const titan::DeviceProvider* titan_device_provider() { return &titan::neuron::kProvider; }
