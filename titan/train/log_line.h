#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "titan/train/device_memory.h"

namespace titan {

/// ANSI colour codes of the log lines; all empty when colours are off.
struct Colors {
  std::string_view red, green, yellow, blue, magenta, cyan, orange, turquoise, reset;

  /// The codes torchtitan uses, or empty strings when `enabled` is false.
  static Colors make(bool enabled);
};

/// What one `step:` line shows. Rates are those of one data-parallel rank.
struct StepReport {
  int64_t step = 0;
  double loss = 0;       ///< mean over the valid tokens of the whole global batch
  double grad_norm = 0;  ///< before clipping
  MemoryStats memory;
  double tokens_per_second = 0;
  double tflops = 0;
  std::optional<double> mfu;  ///< percent of the peak; nullopt prints N/A
};

/// "step: 10  loss:  2.34567  grad_norm:  0.1234  memory:  0.59GiB(2.52%)  tps: 27,483  tflops: 1.97  mfu:
/// 0.20%"
std::string step_line(const StepReport& report, const Colors& colors);

/// "validate step: 10  loss:  2.3457  memory:  0.59GiB(2.52%)  tps: 27,483"
std::string validate_line(int64_t step, double loss, const MemoryStats& memory, double tokens_per_second,
                          const Colors& colors);

/// "Model qwen3 4B size: 4,022,468,096 total parameters"
std::string model_size_line(std::string_view name, std::string_view flavor, int64_t num_parameters,
                            const Colors& colors);

/// "Peak FLOPS used for computing MFU: 9.890e+14"
std::string peak_line(double flops);

/// "CPU memory usage for model: 0.05GiB(0.21%)": the parameters' own bytes.
std::string model_memory_line(const DeviceInfo& device, int64_t bytes);

/// `value` with `decimals` digits after the point, padded with blanks on the left to `width` characters:
/// Python's
/// `{:8.5f}` is padded(value, 8, 5).
std::string padded(double value, size_t width, int decimals);

/// `value` with `decimals` digits after the point and commas between thousands: Python's `{:,.2f}`.
std::string fixed_with_commas(double value, int decimals);

}  // namespace titan
