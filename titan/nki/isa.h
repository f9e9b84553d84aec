#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <utility>
#include <vector>

#include "titan/nki/instruction.h"
#include "titan/nki/language.h"

/// nki.isa: one function per instruction. Sizes, placements and rules are those of docs/write_a_kernel.md; a
/// KernelError names the rule that a call breaks. Unless said otherwise sources are converted to float32, the
/// arithmetic is float32, and the result is rounded into dst's dtype; all operands have the same partitions
/// and free sizes.
namespace titan::nki::isa {

using Where = std::source_location;

// Under the names that they have in Python: nisa::engine::vector, nisa::oob_mode::skip.
using engine = Engine;
using oob_mode = OobMode;
using matmul_perf_mode = MatmulPerfMode;
using reduce_cmd = ReduceCommand;

/// What most instructions let the kernel choose.
struct EngineOptions {
  Engine engine = Engine::unknown;  ///< unknown: the usual one
};

// --- moving data ---

struct DmaOptions {
  OobMode oob_mode = OobMode::error;
  Engine engine = Engine::unknown;
};
/// dst = src in the order of both access patterns; element counts agree.
void dma_copy(Tensor dst, Tensor src, DmaOptions options = {}, const Where& where = Where::current());

/// dst (SBUF) = src with its dimensions in the order `axes` ([1, 0], [2, 1, 0] or [3, 1, 2, 0]).
struct DmaTransposeOptions {
  std::vector<int64_t> axes = {1, 0};
};
void dma_transpose(Tensor dst, Tensor src, DmaTransposeOptions options = {},
                   const Where& where = Where::current());

/// dst = sum of the sources in float32. With a vector offset there are two, one of them dst itself: dst[idx]
/// = dst[idx] + src, the indices being different, or dst = dst + src[idx].
struct DmaComputeOptions {
  Operation reduce_op = Operation::add;
  bool unique_indices = true;
};
void dma_compute(Tensor dst, std::vector<Tensor> srcs, DmaComputeOptions options = {},
                 const Where& where = Where::current());

/// dst = src; the bits, where the dtypes agree.
void tensor_copy(Tensor dst, Tensor src, EngineOptions options = {}, const Where& where = Where::current());

/// dst = predicate != 0 ? src : dst; with `reverse_pred` where it is 0.
struct PredicateOptions {
  bool reverse_pred = false;
};
void tensor_copy_predicated(Tensor dst, Tensor src, Tensor predicate, PredicateOptions options = {},
                            const Where& where = Where::current());

void memset(Tensor dst, double value, EngineOptions options = {}, const Where& where = Where::current());

/// dst[p, i...] = offset + p * channel_multiplier + sum of i * step.
struct IotaOptions {
  int64_t offset = 0, channel_multiplier = 0;
};
using Pattern = std::vector<std::pair<int64_t, int64_t>>;  ///< {step, count}
void iota(Tensor dst, Pattern pattern, IotaOptions options = {}, const Where& where = Where::current());

/// dst[f, p] = data[p, f]: TensorE into PSUM up to 128 x 128, VectorE up to 32 x 32.
void nc_transpose(Tensor dst, Tensor data, EngineOptions options = {}, const Where& where = Where::current());

/// Within each 32 partitions dst[p] = src[mask[p % 32]]; 255 leaves dst as it is.
void nc_stream_shuffle(Tensor dst, Tensor src, const std::array<uint8_t, 32>& shuffle_mask,
                       const Where& where = Where::current());

/// Swaps SBUF tensors with the other core.
struct SendRecvOptions {
  int64_t send_to_rank = 0, recv_from_rank = 0, pipe_id = 0;
};
void sendrecv(Tensor src, Tensor dst, SendRecvOptions options, const Where& where = Where::current());

/// Neither core goes on before both are here.
void core_barrier(Tensor data, std::array<int64_t, 2> cores = {0, 1}, EngineOptions options = {},
                  const Where& where = Where::current());

/// Numbers of the sequencer: loaded from one int32 of SBUF or HBM, or stored into one.
void register_load(Register& to, Tensor from, const Where& where = Where::current());
void register_store(Tensor to, const Register& from, const Where& where = Where::current());

// --- computing ---

/// dst[m, n] = sum over p of stationary[p, m] * moving[p, n], in float32. `accumulate`: none overwrites at
/// the first write to a place of PSUM and adds afterwards, true adds, false overwrites.
struct MatmulOptions {
  bool is_stationary_onezero = false, is_moving_onezero = false, is_transpose = false;
  std::optional<bool> accumulate = {};
  MatmulPerfMode perf_mode = MatmulPerfMode::none;
};
void nc_matmul(Tensor dst, Tensor stationary, Tensor moving, MatmulOptions options = {},
               const Where& where = Where::current());

void tensor_tensor(Tensor dst, Tensor data1, Tensor data2, Operation op, EngineOptions options = {},
                   const Where& where = Where::current());

/// ((data op0 operand0) op1 operand1); a reversed operation takes its operands the other way round.
struct TensorScalarOptions {
  bool reverse0 = false;
  Operation op1 = Operation::none;
  ScalarOperand operand1 = {};
  bool reverse1 = false;
  Engine engine = Engine::unknown;
};
void tensor_scalar(Tensor dst, Tensor data, Operation op0, ScalarOperand operand0,
                   TensorScalarOptions options = {}, const Where& where = Where::current());

/// ((data op0 operand0) op1 operand1), operand1 a tensor.
struct ScalarTensorTensorOptions {
  bool reverse0 = false, reverse1 = false;
};
void scalar_tensor_tensor(Tensor dst, Tensor data, Operation op0, ScalarOperand operand0, Operation op1,
                          Tensor operand1, ScalarTensorTensorOptions options = {},
                          const Where& where = Where::current());

/// Reduces trailing free dimensions; in order of elements.
struct TensorReduceOptions {
  bool negate = false, keepdims = false;
};
void tensor_reduce(Tensor dst, Operation op, Tensor data, std::vector<int64_t> axis,
                   TensorReduceOptions options = {}, const Where& where = Where::current());

/// dst [1, F] = reduction of data over its partitions.
void tensor_partition_reduce(Tensor dst, Operation op, Tensor data, const Where& where = Where::current());

/// dst = data op0 operand0; VectorE's accumulators reduce what dst is before its rounding over all free
/// dimensions, as `reduce_cmd` says, and reduce_res [P, 1], where given, is what they then hold.
struct TensorScalarReduceOptions {
  bool reverse0 = false;
  ReduceCommand reduce_cmd = ReduceCommand::reset_reduce;
  ScalarOperand reduce_init = {};  ///< of load_reduce
  bool reduce_res_negate = false;
};
void tensor_scalar_reduce(Tensor dst, Tensor data, Operation op0, ScalarOperand operand0, Operation reduce_op,
                          Tensor reduce_res, TensorScalarReduceOptions options = {},
                          const Where& where = Where::current());

/// dst = op(data * scale + bias). With a `reduce_cmd` ScalarE's accumulators add up what dst is before its
/// rounding over all free dimensions, and reduce_res [P, 1], where given, is what they then hold.
struct ActivationOptions {
  ScalarOperand bias = {};
  ScalarOperand scale = 1.0;
  Operation reduce_op = Operation::none;
  Tensor reduce_res = {};
  ReduceCommand reduce_cmd = ReduceCommand::idle;
};
void activation(Tensor dst, Operation op, Tensor data, ActivationOptions options = {},
                const Where& where = Where::current());
/// The same with reset_reduce: reduce_res [P, 1] = sum over all free dimensions of what dst is before its
/// rounding.
void activation_reduce(Tensor dst, Operation op, Tensor data, Operation reduce_op, Tensor reduce_res,
                       ActivationOptions options = {}, const Where& where = Where::current());

void reciprocal(Tensor dst, Tensor data, EngineOptions options = {}, const Where& where = Where::current());

/// dst = (offset + p * channel_multiplier + sum of i * step) cmp_op 0 ? on_true_tile : on_false_value.
struct AffineSelectOptions {
  Operation cmp_op = Operation::equal;
  int64_t offset = 0;
};
void affine_select(Tensor dst, Pattern pattern, int64_t channel_multiplier, Tensor on_true_tile,
                   double on_false_value, AffineSelectOptions options = {},
                   const Where& where = Where::current());

/// With j = range_start + i: dst = (j comp_op0 bound0) and (j comp_op1 bound1) ? on_true_tile : smallest
/// float32; reduce_res [P, 1] = maximum of dst.
struct RangeSelectOptions {
  double range_start = 0;
  Tensor reduce_res = {};
};
void range_select(Tensor dst, Tensor on_true_tile, Operation comp_op0, Operation comp_op1,
                  ScalarOperand bound0, ScalarOperand bound1, RangeSelectOptions options = {},
                  const Where& where = Where::current());

}  // namespace titan::nki::isa
