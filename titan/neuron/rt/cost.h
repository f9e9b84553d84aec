#pragma once

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
  double gpsimd = 0;  ///< GpSimd: in kernels of the user's alone
  double hbm = 0;     ///< reading inputs and writing outputs once
  double link = 0;    ///< NeuronLink

  EngineTimes& operator+=(const EngineTimes& other);
  /// The busiest engine's time: what the work takes at least, if everything overlaps.
  double longest() const;
};

/// How an operator uses the engines; docs/neuron.md has the table.
enum class OperatorClass {
  matmul,          ///< TensorE
  attention,       ///< TensorE two products forward, five backward; ScalarE one exp a score
  loss,            ///< TensorE one product forward and one a gradient; ScalarE one exp a logit
  elementwise,     ///< VectorE one pass
  transcendental,  ///< ScalarE one pass: exp, log, sqrt, sigmoid, ...
  normalisation,   ///< VectorE two passes, ScalarE one number a row
  reduction,       ///< VectorE one pass over the input
  gather,          ///< HBM only: embedding, index, scatter
  copy,            ///< HBM only
  optimizer,       ///< VectorE six passes, ScalarE one
};

/// The class of an operator by its dispatcher name ("aten::mm", "titan::rms_norm_backward"; overloads, out
/// variants and variants in place share it). Names that no table knows count as elementwise.
OperatorClass class_of(std::string_view name);

/// What one call does at least.
struct Work {
  OperatorClass operator_class = OperatorClass::elementwise;
  /// Of the arithmetic: the left operand's of matrix products, else the widest floating one of the inputs
  /// with the most elements (a bias or a row's factor does not slow the whole down).
  DeviceDtype dtype = DeviceDtype::float32;
  double bytes = 0;            ///< moved between HBM and the core
  double flops = 0;            ///< multiplications and additions of matrix products
  double vector_elements = 0;  ///< elements times passes through VectorE
  double scalar_elements = 0;  ///< elements times passes through ScalarE
};

/// A call's work from its shapes. `name` with its overload ("aten::mul.out"). `inputs` are all defined tensor
/// arguments in the order of the schema, lists flattened, those that are written too; `outputs` all defined
/// results, for operators in place the tensors that they return.
Work work_of(std::string_view name, std::span<const TensorShape> inputs,
             std::span<const TensorShape> outputs);

/// The documented rates of one logical core of `lnc` physical ones (docs/neuron.md names the sources).
struct Rates {
  explicit Rates(int64_t lnc);

  double matmul_flops(DeviceDtype dtype) const;  ///< FLOP/s of TensorE; what it has no rate for, as float32
  double vector_elements(DeviceDtype dtype) const;  ///< elements/s of VectorE
  double scalar_elements() const;                   ///< elements/s of ScalarE
  double hbm_bytes() const;                         ///< B/s
  double link_bytes() const;                        ///< B/s of the chip's links that fall to this core

 private:
  double cores_;
};

/// Lower bounds from the rates alone: no launch, no latency, no dependency is counted.
EngineTimes times_of(const Work& work, const Rates& rates);

/// The rates as the table that docs/neuron.md shows (Markdown), a row for each operator class and dtype.
std::string cost_table(int64_t lnc);

}  // namespace titan::neuron
