#include "titan/neuron/rt/instance.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/base/number.h"

namespace titan::neuron {
namespace {

constexpr const char* kLncVariable = "NEURON_LOGICAL_NC_CONFIG";
constexpr const char* kVisibleVariable = "NEURON_RT_VISIBLE_CORES";
constexpr const char* kNumCoresVariable = "NEURON_RT_NUM_CORES";
constexpr const char* kHbmVariable = "TITAN_NEURON_HBM_GIB";

int64_t lnc_from_env() {
  const auto text = env(kLncVariable);
  if (!text || *text == "2") return 2;
  if (*text == "1") return 1;
  throw ConfigError("{} must be 1 or 2 (physical NeuronCores of a logical one; 2 when unset), got {}",
                    kLncVariable, *text);
}

/// What a list of cores may hold, for messages.
std::string cores_there_are(const Instance& instance) {
  return format("the emulated trn2.48xlarge has the logical cores 0-{} at LNC {}", instance.num_cores() - 1,
                instance.lnc);
}

/// "0-3", "0,2,5-7": the cores in the order of the list.
std::vector<int64_t> parse_cores(const std::string& text, const Instance& instance) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError("{}={}: {}. Give cores and ranges such as 0-3 or 0,2,5-7, or unset it for all; {}",
                      kVisibleVariable, text, why, cores_there_are(instance));
  };
  std::vector<int64_t> cores;
  for (const std::string& piece : split(text, ',')) {
    const std::string_view range = trim(piece);
    const size_t dash = range.find('-');
    const auto first = parse_number<int64_t>(trim(range.substr(0, dash)));
    const auto last = dash == range.npos ? first : parse_number<int64_t>(trim(range.substr(dash + 1)));
    if (range.empty()) refuse(trim(text).empty() ? "it names no core" : "a core is missing beside a comma");
    if (!first || !last || *first < 0) refuse(format("'{}' is no core and no range", range));
    if (*first > *last) refuse(format("the range {} runs backwards", range));
    if (*last >= instance.num_cores()) refuse(format("there is no core {}", *last));
    for (int64_t core = *first; core <= *last; ++core) {
      if (std::find(cores.begin(), cores.end(), core) != cores.end()) {
        refuse(format("core {} is named twice", core));
      }
      cores.push_back(core);
    }
  }
  return cores;
}

/// NEURON_RT_NUM_CORES, where 0 and unset mean all.
int64_t num_cores_from_env(const Instance& instance) {
  const auto text = env(kNumCoresVariable);
  if (!text) return instance.num_cores();
  const auto number = parse_number<int64_t>(trim(*text));
  if (!number || *number < 0 || *number > instance.num_cores()) {
    throw ConfigError("{} must be a number of cores from 1 to {}, or 0 for all, got {}; {}",
                      kNumCoresVariable, instance.num_cores(), *text, cores_there_are(instance));
  }
  return *number == 0 ? instance.num_cores() : *number;
}

std::vector<int64_t> visible_cores_from_env(const Instance& instance) {
  const auto count = static_cast<size_t>(num_cores_from_env(instance));
  // Set but empty is no request for all cores, as it is for other variables: a list came out wrong.
  if (const char* list = std::getenv(kVisibleVariable)) {
    std::vector<int64_t> cores = parse_cores(list, instance);
    if (env(kNumCoresVariable) && cores.size() != count) {
      warn_once(format("{}={} has no effect beside {}={}, which names {} cores", kNumCoresVariable,
                       *env(kNumCoresVariable), kVisibleVariable, list, cores.size()));
    }
    return cores;
  }
  std::vector<int64_t> cores(count);
  for (size_t i = 0; i < count; ++i) cores[i] = static_cast<int64_t>(i);
  return cores;
}

int64_t hbm_bytes_from_env(const Instance& instance) {
  const auto text = env(kHbmVariable);
  if (!text) return Instance::kHbmBytesPerChip / instance.cores_per_chip();
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  const double most = static_cast<double>(Instance::kHbmBytesPerChip) / kGib;
  const double gib = parse_number<double>(trim(*text)).value_or(0);
  // Written so that nan is refused, and what rounds to no byte at all.
  if (!(gib * kGib >= 1 && gib <= most)) {
    throw ConfigError(
        "{} must be the HBM of a logical core in GiB, above 0 and at most the {} of a chip, got {}; "
        "unset, it is {} at LNC {}",
        kHbmVariable, most, *text, most / static_cast<double>(instance.cores_per_chip()), instance.lnc);
  }
  return static_cast<int64_t>(gib * kGib);
}

}  // namespace

Instance Instance::from_env() {
  Instance instance;
  instance.lnc = lnc_from_env();
  instance.hbm_bytes = hbm_bytes_from_env(instance);
  instance.visible_cores = visible_cores_from_env(instance);
  return instance;
}

int64_t Instance::core_of(int64_t local_rank, int64_t local_world_size) const {
  check(local_rank >= 0 && local_rank < local_world_size, "a local rank is below the local world size");
  const auto visible = static_cast<int64_t>(visible_cores.size());
  if (local_world_size <= visible) return visible_cores[static_cast<size_t>(local_rank)];

  const bool restricted = visible < num_cores();
  std::string remedy = format("Start at most {} (--nproc_per_node)", visible);
  if (restricted) remedy += format(", or let {} or {} show more", kVisibleVariable, kNumCoresVariable);
  if (!restricted && lnc == 2)
    remedy += format(", or set {}=1, which gives {} logical cores of half the HBM", kLncVariable,
                     kChips * kPhysicalCoresPerChip);
  throw ConfigError(
      "{} ranks on this machine need a logical core each, but the emulated trn2.48xlarge has {} at LNC {}{}. "
      "{}",
      local_world_size, num_cores(), lnc, restricted ? format(", of which {} are visible", visible) : "",
      remedy);
}

}  // namespace titan::neuron
