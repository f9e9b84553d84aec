#include "titan/train/device_memory.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <limits>
#include <optional>

#include "titan/base/error.h"
#include "titan/base/strings.h"

namespace titan {
namespace {

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && line.starts_with("model name"))
      return std::string(trim(line.substr(colon + 1)));
  }
  return "cpu";
}

// A control group may allow less than the machine has; version 2 first, then version 1. "max" does not parse.
std::optional<int64_t> control_group_limit() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t limit = 0;
    if (std::ifstream file(path); file >> limit && limit > 0) return limit;
  }
  return std::nullopt;
}

int64_t host_memory() {
  const int64_t physical = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return std::min(physical, control_group_limit().value_or(std::numeric_limits<int64_t>::max()));
}

int64_t swap() {
  struct sysinfo info{};
  return sysinfo(&info) == 0 ? static_cast<int64_t>(info.totalswap) * info.mem_unit : 0;
}

}  // namespace

DeviceInfo device_info(std::string_view device_type) {
  if (device_type == "cpu")
    return {.type = "cpu", .name = cpu_model(), .capacity_bytes = host_memory(), .swap_bytes = swap()};
  throw ConfigError("--device {}: not built yet; use --device cpu", device_type);
}

MemoryStats peak_memory(const DeviceInfo& device) {
  check(device.type == "cpu", "the device has a row in the device table");
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double bytes = static_cast<double>(usage.ru_maxrss) * 1024.0;
  const double gib = bytes / kGiB, percent = 100.0 * bytes / static_cast<double>(device.capacity_bytes);
  return {
      .max_active_gib = gib, .max_active_pct = percent, .max_reserved_gib = gib, .max_reserved_pct = percent};
}

std::string DeviceInfo::label() const {
  std::string upper = type;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return upper;
}

std::string capacity_line(const DeviceInfo& device) {
  const double gib = static_cast<double>(device.capacity_bytes) / kGiB;
  return format("{} capacity: {} with {}GiB memory", device.label(), device.name, fixed(gib, 2));
}

}  // namespace titan
