#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan::neuron {

/// Element types as the device has them; 64-bit numbers are kept in 32 bits on it.
enum class DeviceDtype : uint8_t {
  float32,
  bfloat16,
  float16,
  float8,
  int32,
  int16,
  int8,
  boolean,
  complex64
};

/// Bytes of an element in HBM.
int64_t element_bytes(DeviceDtype dtype);

/// A tensor as an operator sees it.
struct TensorShape {
  DeviceDtype dtype = DeviceDtype::float32;
  std::vector<int64_t> sizes;

  int64_t numel() const;
  int64_t bytes() const { return numel() * element_bytes(dtype); }
};

/// Seconds that each engine of a logical core is busy at least.
struct EngineTimes {
  double tensor = 0;  ///< TensorE: matrix products
  double vector = 0;  ///< VectorE: element-wise arithmetic, reductions
  double scalar = 0;  ///< ScalarE: exp, log, rsqrt, ...
  double hbm = 0;     ///< reading inputs and writing outputs once
  double link = 0;    ///< NeuronLink

  EngineTimes& operator+=(const EngineTimes& other);
  /// The busiest engine's time: what the work takes at least, if everything overlaps.
  double longest() const;
};

/// How an operator uses the engines.
enum class OperatorClass {
  matmul,          ///< TensorE
  attention,       ///< TensorE for two products forward, five backward; ScalarE for exp
  loss,            ///< matrix products with softmax over the vocabulary
  elementwise,     ///< VectorE, one pass over the largest operand
  transcendental,  ///< ScalarE, one pass
  normalisation,   ///< VectorE two passes, ScalarE one number a row
  reduction,       ///< VectorE, one pass over the input
  gather,          ///< HBM only: embedding, index, sort-free data movement
  copy,            ///< HBM only
  optimizer,       ///< VectorE, several passes
};

/// The class of an operator by its dispatcher name ("aten::mm", "titan::rms_norm_backward"; the overload does
/// not matter). Names that the table does not know count as elementwise.
OperatorClass class_of(std::string_view name);

/// What one call does.
struct Work {
  OperatorClass operator_class = OperatorClass::elementwise;
  DeviceDtype dtype = DeviceDtype::float32;  ///< of the arithmetic: the widest floating input's
  double bytes = 0;                          ///< moved between HBM and the core
  double flops = 0;                          ///< multiplications and additions of matrix products
  double elements = 0;                       ///< that pass through VectorE and ScalarE
};

/// A call's work from its shapes.
Work work_of(std::string_view name, std::span<const TensorShape> inputs,
             std::span<const TensorShape> outputs);

/// The documented rates of one logical core of `lnc` physical ones (docs/neuron.md names the sources).
struct Rates {
  explicit Rates(int64_t lnc);

  double matmul_flops(DeviceDtype dtype) const;     ///< FLOP/s of TensorE
  double vector_elements(DeviceDtype dtype) const;  ///< elements/s of VectorE
  double scalar_elements() const;                   ///< elements/s of ScalarE
  double hbm_bytes() const;                         ///< B/s
  double link_bytes() const;                        ///< B/s of the chip's links that fall to this core

 private:
  double cores_;
};

/// Lower bounds from the rates alone: no launch, no latency, no dependency is counted.
EngineTimes times_of(const Work& work, const Rates& rates);

/// The rates as the table that docs/neuron.md shows (Markdown), one row per operator class and dtype.
std::string cost_table(int64_t lnc);

}  // namespace titan::neuron
