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
#include "titan/ops/device.h"

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
  if (device_type == "neuron") {
    const ProvidedDevice* neuron = taken_device();
    if (!neuron) throw ConfigError("--device neuron: this process has not taken the device");
    return {.type = "neuron",
            .name = neuron->name,
            .capacity_bytes = neuron->capacity_bytes,
            .emulated = neuron->emulated,
            .device = neuron->device};
  }
  throw ConfigError("--device {}: not built yet; use --device cpu or --device neuron", device_type);
}

MemoryStats peak_memory(const DeviceInfo& device) {
  const auto percent = [&](double bytes) {
    return 100.0 * bytes / static_cast<double>(device.capacity_bytes);
  };
  const auto stats = [&](double active, double reserved) {
    return MemoryStats{.max_active_gib = active / kGiB,
                       .max_active_pct = percent(active),
                       .max_reserved_gib = reserved / kGiB,
                       .max_reserved_pct = percent(reserved)};
  };
  if (device.type == "cpu") {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double bytes = static_cast<double>(usage.ru_maxrss) * 1024.0;
    return stats(bytes, bytes);
  }
  check(device.type == "neuron", "the device has a row in the device table");
  MemoryStats peak = stats(device_count("active_bytes.all.peak"), device_count("reserved_bytes.all.peak"));
  peak.num_alloc_retries = static_cast<int64_t>(device_count("num_alloc_retries"));
  peak.num_ooms = static_cast<int64_t>(device_count("num_ooms"));
  peak.label = "NEURON memory";
  return peak;
}

void reset_peak_memory(const DeviceInfo& device) {
  if (device.type == "neuron") reset_peak_device_memory();
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
