#include "titan/train/log_line.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "titan/base/strings.h"

namespace titan {
namespace {

std::string memory_field(const MemoryStats& memory) {
  return format("{}: {}GiB({}%)", memory.label, padded(memory.max_reserved_gib, 5, 2),
                fixed(memory.max_reserved_pct, 2));
}

std::string step_number(int64_t step) { return step < 10 ? format(" {}", step) : format("{}", step); }

}  // namespace

Colors Colors::make(bool enabled) {
  if (!enabled) return {};
  return {.red = "\033[31m",
          .green = "\033[32m",
          .yellow = "\033[33m",
          .blue = "\033[34m",
          .magenta = "\033[35m",
          .cyan = "\033[36m",
          .orange = "\033[38;2;180;60;0m",
          .turquoise = "\033[38;2;54;234;195m",
          .reset = "\033[39m"};
}

std::string peak_line(double flops) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3e", flops);
  return format("Peak FLOPS used for computing MFU: {}", text);
}

std::string model_memory_line(const DeviceInfo& device, int64_t bytes) {
  const double gib = static_cast<double>(bytes) / kGiB;
  const double percent = 100.0 * static_cast<double>(bytes) / static_cast<double>(device.capacity_bytes);
  return format("{} memory usage for model: {}GiB({}%)", device.label(), fixed(gib, 2), fixed(percent, 2));
}

std::string padded(double value, size_t width, int decimals) {
  const std::string digits = fixed(value, decimals);
  return std::string(width - std::min(width, digits.size()), ' ') + digits;
}

std::string fixed_with_commas(double value, int decimals) {
  std::string digits = fixed(value, decimals);
  if (!std::isfinite(value)) return digits;
  const size_t first = digits.starts_with('-') ? 1 : 0;
  for (size_t at = std::min(digits.find('.'), digits.size()); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string step_line(const StepReport& report, const Colors& colors) {
  const std::string mfu = report.mfu ? fixed(*report.mfu, 2) + "%" : "N/A";
  return format("{}step: {}  {}loss: {}  {}grad_norm: {}  {}{}  {}tps: {}  {}tflops: {}  {}mfu: {}{}",
                colors.red, step_number(report.step), colors.green, padded(report.loss, 8, 5), colors.orange,
                padded(report.grad_norm, 7, 4), colors.turquoise, memory_field(report.memory), colors.blue,
                fixed_with_commas(std::nearbyint(report.tokens_per_second), 0), colors.cyan,
                fixed_with_commas(report.tflops, 2), colors.magenta, mfu, colors.reset);
}

std::string validate_line(int64_t step, double loss, const MemoryStats& memory, double tokens_per_second,
                          const Colors& colors) {
  return format("{}validate step: {}  {}loss: {}  {}{}  {}tps: {}{}", colors.yellow, step_number(step),
                colors.green, padded(loss, 7, 4), colors.turquoise, memory_field(memory), colors.blue,
                fixed_with_commas(std::nearbyint(tokens_per_second), 0), colors.reset);
}

std::string model_size_line(std::string_view name, std::string_view flavor, int64_t num_parameters,
                            const Colors& colors) {
  return format("{}Model {} {} {}size: {} total parameters{}", colors.blue, name, flavor, colors.red,
                with_commas(num_parameters), colors.reset);
}

}  // namespace titan
