#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace titan {

/// The rate that model-FLOPs utilisation is measured against.
struct PeakFlops {
  double flops = 0;    ///< floating-point operations a second
  std::string source;  ///< where the number comes from, for the log: "measured sgemm, 2 threads", "table"
};

/// Dense bf16 peak of a device by its marketing name, FLOP/s; nullopt for a name the table does not know.
/// Source of the numbers: the vendors' data sheets, as torchtitan lists them in `tools/utils.py`.
std::optional<double> table_peak_flops(std::string_view device_name);

/// Peak for `device_type` ("cpu", "cuda", "neuron") and the device's name. A CPU is measured (fp32 matrix
/// product on all threads); the neuron device tells its own; a device missing from the table gets 312e12
/// (158e12 on neuron) and a warning.
PeakFlops peak_flops(std::string_view device_type, std::string_view device_name);

}  // namespace titan
