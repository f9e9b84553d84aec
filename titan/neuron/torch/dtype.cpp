#include "titan/neuron/torch/dtype.h"

#include "titan/base/error.h"

namespace titan::neuron {

DeviceDtype device_dtype(c10::ScalarType dtype) {
  using enum c10::ScalarType;
  switch (dtype) {
    case Float:
    case Double:
      return DeviceDtype::float32;
    case BFloat16:
      return DeviceDtype::bfloat16;
    case Half:
      return DeviceDtype::float16;
    case Float8_e5m2:
    case Float8_e4m3fnuz:
    case Float8_e5m2fnuz:
      return DeviceDtype::float8;
    case Int:
    case Long:
    case UInt32:
    case UInt64:
      return DeviceDtype::int32;
    case Short:
    case UInt16:
      return DeviceDtype::int16;
    case Byte:
    case Char:
      return DeviceDtype::int8;
    case Bool:
      return DeviceDtype::boolean;
    case ComplexFloat:
    case ComplexDouble:
      return DeviceDtype::complex64;
    default:
      throw ValueError("dtype {} does not exist on trn2; use float32, bfloat16, float16 or float8_e5m2",
                       c10::toString(dtype));
  }
}

const char* dtype_name(c10::ScalarType dtype) {
  using enum c10::ScalarType;
  switch (dtype) {
    case Float:
      return "float32";
    case Double:
      return "float64";
    case BFloat16:
      return "bfloat16";
    case Half:
      return "float16";
    case Int:
      return "int32";
    case Long:
      return "int64";
    case Byte:
      return "uint8";
    case Bool:
      return "bool";
    default:
      return c10::toString(dtype);
  }
}

int64_t device_bytes(c10::ScalarType dtype, int64_t host_bytes) {
  const auto host_element = static_cast<int64_t>(c10::elementSize(dtype));
  return host_bytes / host_element * element_bytes(device_dtype(dtype)) + host_bytes % host_element;
}

}  // namespace titan::neuron
