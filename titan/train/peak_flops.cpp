#include "titan/train/peak_flops.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "titan/base/log.h"
#include "titan/base/strings.h"
#include "titan/ops/cpu_info.h"
#include "titan/ops/device.h"
#include "titan/ops/threads.h"

namespace titan {
namespace {

// Searched in order: the first entry whose text occurs in the name (case ignored), so longer names come
// first.
constexpr std::pair<std::string_view, double> kPeaks[] = {
    {"a100", 312e12},      {"a6000", 154.85e12}, {"h100 nvl", 835e12}, {"h100 pcie", 756e12},
    {"h100", 989e12},      {"h200", 989e12},     {"h20", 148e12},      {"gb200", 2.5e15},
    {"gb300", 2.5e15},     {"b200", 2.25e15},    {"b300", 2.25e15},    {"mi355x", 2.5e15},
    {"mi300x", 1.3e15},    {"mi325x", 1.3e15},   {"mi250x", 191.5e12}, {"l40s", 362e12},
    {"tpu v4", 275e12},    {"tpu v5e", 197e12},  {"tpu v5p", 459e12},  {"tpu v6e", 918e12},
    {"tpu v7", 1153.5e12}, {"trn1", 90e12},      {"inf2", 90e12},      {"trn2", 158e12},
    {"trn3", 158e12},
};
constexpr double kUnknownDevice = 312e12, kUnknownNeuron = 158e12;

}  // namespace

std::optional<double> table_peak_flops(std::string_view device_name) {
  std::string name(device_name);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [text, flops] : kPeaks) {
    if (name.find(text) != std::string::npos) return flops;
  }
  return std::nullopt;
}

PeakFlops peak_flops(std::string_view device_type, std::string_view device_name) {
  if (device_type == "cpu") {
    return {.flops = measured_peak_flops(),
            .source = format("measured: float32 matrix product on {} thread(s)", num_threads())};
  }
  const ProvidedDevice* neuron = device_type == "neuron" ? taken_device() : nullptr;
  if (neuron && neuron->name == device_name && neuron->peak_flops > 0) {
    return {.flops = neuron->peak_flops,
            .source = format("{} {}", neuron->emulated ? "documented for" : "told by", neuron->name)};
  }
  if (const auto flops = table_peak_flops(device_name))
    return {.flops = *flops, .source = "from the table of devices"};
  const double flops = device_type == "neuron" ? kUnknownNeuron : kUnknownDevice;
  log_warning("Peak FLOPS of {} '{}' are not known; MFU is computed against {}", device_type, device_name,
              flops);
  return {.flops = flops, .source = "assumed"};
}

}  // namespace titan
