#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// How the device stores a dtype of torch: int64 as int32, float64 as float32, complex128 as complex64, the
/// rest as it is. ValueError for a dtype that Trainium2 does not have (float8_e4m3fn, MX formats, quantised
/// ones).
DeviceDtype device_dtype(c10::ScalarType dtype);

/// "float32": what accounts call a dtype; the text lives for ever.
const char* dtype_name(c10::ScalarType dtype);

/// Bytes of HBM that `host_bytes` of elements of `dtype` take.
int64_t device_bytes(c10::ScalarType dtype, int64_t host_bytes);

}  // namespace titan::neuron
