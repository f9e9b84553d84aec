#include <algorithm>

#include "titan/nki/cost.h"
#include "titan/nki/cost_constants.h"

// [Note: cycles]
// The formulas are those that the public instruction reference printed until SDK 2.26, where N is the
// elements of one partition that an instruction reads (of its destination for those that only write) and 64
// cycles the least time between two instructions of VectorE or ScalarE. The guides' later notes on faster
// modes of trn2 and trn3 (16-bit tensor_copy and tensor_scalar at 2 to 4 elements a cycle) have no published
// conditions that cover every case, and are left out: a prediction may be slow there, never too fast. Without
// a published formula: tensor_partition_reduce is taken as GpSimd's start and its elements, like iota and
// affine_select; tfloat32 multiplies at the rate of bfloat16, which are the peaks the arch guides give;
// float8 in double rows counts columns, of which each holds two rows.

namespace titan::nki {
namespace {

bool is_in_psum(const Tensor& tensor) { return tensor.buffer() == Buffer::psum; }

bool any_source_in_psum(const Instruction& instruction) {
  return std::any_of(instruction.sources.begin(), instruction.sources.end(), is_in_psum);
}

bool all_bfloat16(const Instruction& instruction) {
  const auto is_bfloat16 = [](const Tensor& tensor) { return tensor.dtype() == Dtype::bfloat16; };
  return is_bfloat16(instruction.dst) &&
         std::all_of(instruction.sources.begin(), instruction.sources.end(), is_bfloat16);
}

/// Whether a partition's elements lie one after another, in SBUF.
bool is_packed_in_sbuf(const Tensor& tensor) {
  if (tensor.buffer() != Buffer::sbuf) return false;
  int64_t stride = 1;
  const std::vector<Dim>& dims = tensor.dims();
  for (size_t i = dims.size(); i-- > 1;) {
    if (dims[i].count != 1 && dims[i].stride != stride) return false;
    stride *= dims[i].count;
  }
  return true;
}

double at_least_interval(double cycles) { return std::max(kMinInterval, cycles); }

/// Each overload is one instruction's formula; `n` is as the note says.
struct Formula {
  const Instruction& instruction;
  double n;

  double reading_accumulator() const { return instruction.reduce_dst.defined() ? kMinInterval : 0; }

  double operator()(const Matmul& matmul) const {
    const double rows_per_column = matmul.perf_mode == MatmulPerfMode::double_row ? 2 : 1;
    const double m = static_cast<double>(instruction.sources[0].free_size()) / rows_per_column;
    const double columns = static_cast<double>(instruction.sources[1].free_size()) / rows_per_column;
    const bool is_float32 =
        instruction.sources[0].dtype() == Dtype::float32 || instruction.sources[1].dtype() == Dtype::float32;
    const bool has_hint = matmul.stationary_onezero || matmul.moving_onezero;
    const double passes = !is_float32 ? 1 : has_hint ? 2 : 4;
    return passes * std::max(std::min(64.0, m), columns);
  }
  double operator()(const Transpose&) const {
    if (instruction.engine != Engine::tensor) return at_least_interval(n);
    return std::max(static_cast<double>(instruction.sources[0].partitions()), std::min(64.0, n));
  }
  double operator()(const Activation&) const { return at_least_interval(n) + reading_accumulator(); }
  double operator()(const TensorCopy&) const {
    using Kind = Tensor::Indirection::Kind;
    const bool is_dynamic = instruction.dst.indirection().kind != Kind::none ||
                            instruction.sources[0].indirection().kind != Kind::none;
    return is_dynamic ? std::max(kDynamicInterval, n) : at_least_interval(n);
  }
  double operator()(const TensorScalar& scalar) const {
    const bool has_rsqrt = scalar.op0 == Operation::rsqrt || scalar.op1 == Operation::rsqrt;
    return at_least_interval(instruction.engine == Engine::gpsimd && has_rsqrt ? 4 * n : n);
  }
  double operator()(const RangeSelect&) const { return at_least_interval(n); }
  double operator()(const StreamShuffle&) const { return at_least_interval(n); }
  double operator()(const TensorTensor& tensors) const {
    const bool is_simple = tensors.op == Operation::add || tensors.op == Operation::multiply ||
                           tensors.op == Operation::subtract;
    const bool is_packed =
        is_packed_in_sbuf(instruction.dst) &&
        std::all_of(instruction.sources.begin(), instruction.sources.end(), is_packed_in_sbuf);
    const bool is_fast =
        any_source_in_psum(instruction) || (is_simple && is_packed && all_bfloat16(instruction));
    return at_least_interval(is_fast ? n : 2 * n);
  }
  double operator()(const ScalarTensorTensor& steps) const {
    const bool is_fused = steps.op0 == Operation::subtract && steps.op1 == Operation::multiply;
    const bool is_even = instruction.dst.free_size() % 2 == 0;
    const bool is_fast =
        any_source_in_psum(instruction) || (is_fused && is_even && all_bfloat16(instruction));
    return at_least_interval(is_fast ? n : 2 * n);
  }
  double operator()(const TensorReduce& reduce) const {
    const bool is_fast =
        (reduce.op == Operation::add || reduce.op == Operation::maximum) && all_bfloat16(instruction);
    return at_least_interval(is_fast ? n / 2 : n);
  }
  double operator()(const TensorScalarReduce&) const { return at_least_interval(n) + reading_accumulator(); }
  double operator()(const Reciprocal&) const {
    return at_least_interval(instruction.engine == Engine::scalar ? n : 8 * n);
  }
  double operator()(const Memset& memset) const {
    const Dtype dtype = instruction.dst.dtype();
    const bool is_fast = memset.value == 0 && (dtype == Dtype::bfloat16 || dtype == Dtype::float16);
    return at_least_interval(is_fast ? n / 2 : n);
  }
  double operator()(const TensorCopyPredicated&) const {
    const auto width = static_cast<double>(instruction.dst.free_size());
    const bool any_psum = is_in_psum(instruction.dst) || any_source_in_psum(instruction);
    const bool all_psum = is_in_psum(instruction.dst) &&
                          std::all_of(instruction.sources.begin(), instruction.sources.end(), is_in_psum);
    const bool is_mixed = any_psum && !all_psum;
    return at_least_interval(is_mixed ? width : 2 * width);
  }
  double operator()(const Iota&) const { return kGpSimdStart + n; }
  double operator()(const AffineSelect&) const { return kGpSimdStart + n; }
  double operator()(const TensorPartitionReduce&) const { return kGpSimdStart + n; }
  double operator()(const DmaCopy&) const { return 0; }
  double operator()(const DmaTranspose&) const { return 0; }
  double operator()(const DmaCompute&) const { return 0; }
  double operator()(const SendRecv&) const { return 0; }
  double operator()(const CoreBarrier&) const { return 0; }
  double operator()(const DevicePrint&) const { return 0; }
};

int64_t bytes_of_tensor(const Tensor& tensor) { return tensor.numel() * itemsize(tensor.dtype()); }

}  // namespace

double busy_cycles(const Instruction& instruction, Generation) {
  if (instruction.engine == Engine::dma || !instruction.dst.defined()) return 0;
  const Tensor& walked = instruction.sources.empty() ? instruction.dst : instruction.sources[0];
  return std::visit(Formula{instruction, static_cast<double>(walked.free_size())}, instruction.attributes);
}

int64_t dma_bytes(const Instruction& instruction) {
  if (instruction.engine != Engine::dma || !instruction.dst.defined()) return 0;
  int64_t bytes = 0;
  for (const Tensor& source : instruction.sources) bytes += bytes_of_tensor(source);
  return std::max(bytes, bytes_of_tensor(instruction.dst));
}

int64_t hbm_bytes(const Instruction& instruction) {
  if (instruction.engine != Engine::dma || !instruction.dst.defined()) return 0;
  const auto bytes = [](const Tensor& tensor) {
    return is_on_chip(tensor.buffer()) ? 0 : bytes_of_tensor(tensor);
  };
  int64_t sum = bytes(instruction.dst);
  for (const Tensor& source : instruction.sources) sum += bytes(source);
  return sum;
}

void add_work(EngineWork& work, const Instruction& instruction, Generation generation) {
  const auto seconds = [&] {
    return busy_cycles(instruction, generation) / clock_rate(instruction.engine, generation);
  };
  switch (instruction.engine) {
    case Engine::tensor:
      work.tensor += seconds();
      return;
    case Engine::vector:
      work.vector += seconds();
      return;
    case Engine::scalar:
      work.scalar += seconds();
      return;
    case Engine::gpsimd:
      work.gpsimd += seconds();
      return;
    case Engine::dma:
      work.hbm_bytes += static_cast<double>(hbm_bytes(instruction));
      return;
    case Engine::sync:
    case Engine::unknown:
      return;
  }
}

double clock_rate(Engine engine, Generation generation) {
  switch (engine) {
    case Engine::tensor:
      return generation == Generation::trn1 ? 2.8e9 : 2.4e9;
    case Engine::vector:
      return generation == Generation::trn1 ? 1.12e9 : generation == Generation::trn2 ? 0.96e9 : 1.2e9;
    case Engine::scalar:
    case Engine::gpsimd:
      return generation == Generation::trn1 ? 1.4e9 : 1.2e9;
    case Engine::dma:
    case Engine::sync:
    case Engine::unknown:
      break;
  }
  return 0;
}

}  // namespace titan::nki
