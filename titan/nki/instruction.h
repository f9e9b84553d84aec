#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <variant>
#include <vector>

#include "titan/nki/operation.h"
#include "titan/nki/tensor.h"

namespace titan::nki {

/// The engines of a core, each with its own queue of instructions.
enum class Engine : uint8_t { unknown, tensor, vector, scalar, gpsimd, dma, sync };
std::string_view engine_name(Engine engine);

/// A scalar operand: a constant, or one number a partition ([P, 1]).
struct ScalarOperand {
  ScalarOperand() = default;
  ScalarOperand(double number) : constant(number) {}
  ScalarOperand(float number) : constant(number) {}
  ScalarOperand(int number) : constant(number) {}
  ScalarOperand(Tensor vector) : tensor(std::move(vector)) {}
  double constant = 0;
  Tensor tensor = {};
  bool is_tensor() const { return tensor.defined(); }
};

/// What happens to a DMA's row whose index is out of bounds.
enum class OobMode : uint8_t { error, skip };
/// What an instruction does with its engine's accumulators: nothing, set them to what changes nothing, add to
/// them, begin anew with what it adds, or begin with `reduce_init`.
enum class ReduceCommand : uint8_t { idle, reset, reduce, reset_reduce, load_reduce };
enum class MatmulPerfMode : uint8_t { none, double_row };

// The attributes of each instruction; operands that every instruction has (dst, sources) are in Instruction.
struct DmaCopy {
  OobMode oob_mode = OobMode::error;
};
struct DmaTranspose {
  std::vector<int64_t> axes;
};
struct DmaCompute {
  Operation reduce = Operation::add;
  bool unique_indices = true;
};
struct TensorCopy {};
struct TensorCopyPredicated {
  bool reverse = false;
};
struct Memset {
  double value = 0;
};
struct Iota {
  std::vector<std::pair<int64_t, int64_t>> pattern;  ///< {step, count}
  int64_t offset = 0, channel_multiplier = 0;
};
struct Matmul {
  bool is_transpose = false;
  std::optional<bool> accumulate = {};
  MatmulPerfMode perf_mode = MatmulPerfMode::none;
  bool stationary_onezero = false, moving_onezero = false;
};
struct Transpose {};
struct StreamShuffle {
  std::array<uint8_t, 32> mask{};
};
struct TensorTensor {
  Operation op = Operation::none;
};
struct TensorScalar {
  Operation op0 = Operation::none, op1 = Operation::none;
  ScalarOperand operand0, operand1;
  bool reverse0 = false, reverse1 = false;
};
struct ScalarTensorTensor {
  Operation op0 = Operation::none, op1 = Operation::none;
  ScalarOperand operand0;
  bool reverse0 = false, reverse1 = false;
};
struct TensorReduce {
  Operation op = Operation::none;
  std::vector<int64_t> axes;
  bool negate = false, keepdims = false;
};
struct TensorPartitionReduce {
  Operation op = Operation::none;
};
struct TensorScalarReduce {
  Operation op0 = Operation::none, reduce = Operation::none;
  ScalarOperand operand0, reduce_init;
  bool reverse0 = false, negate = false;
  ReduceCommand command = ReduceCommand::reset_reduce;
};
struct Activation {
  Operation op = Operation::none;
  ScalarOperand bias, scale = 1.0;
  Operation reduce = Operation::none;
  ReduceCommand command = ReduceCommand::idle;
  bool has_bias = false, is_reduce = false;  ///< is_reduce: called as activation_reduce
};
struct Reciprocal {};
struct AffineSelect {
  std::vector<std::pair<int64_t, int64_t>> pattern;
  int64_t offset = 0, channel_multiplier = 0;
  double on_false = 0;
  Operation compare = Operation::equal;
};
struct RangeSelect {
  Operation compare0 = Operation::none, compare1 = Operation::none;
  ScalarOperand bound0, bound1;
  double range_start = 0, on_false = -3.4028235e38;
};
struct SendRecv {
  int64_t send_to = 0, receive_from = 0, pipe = 0;
};
struct CoreBarrier {};
struct DevicePrint {
  std::string label;
};

using Attributes =
    std::variant<DmaCopy, DmaTranspose, DmaCompute, TensorCopy, TensorCopyPredicated, Memset, Iota, Matmul,
                 Transpose, StreamShuffle, TensorTensor, TensorScalar, ScalarTensorTensor, TensorReduce,
                 TensorPartitionReduce, TensorScalarReduce, Activation, Reciprocal, AffineSelect, RangeSelect,
                 SendRecv, CoreBarrier, DevicePrint>;

/// One instruction, as data: checking, running, costing and tracing are functions over it.
struct Instruction {
  Engine engine = Engine::unknown;
  Tensor dst = {};                   ///< undefined for those that only synchronise
  std::vector<Tensor> sources = {};  ///< stationary, moving; data1, data2; ...
  Tensor reduce_dst = {};            ///< the second result of reducing instructions
  Attributes attributes = TensorCopy{};
  std::source_location where = {};

  /// "nc_matmul(acc psum[128, 512] float32, a sbuf[128, 128] bfloat16, b sbuf[128, 512] bfloat16)".
  std::string describe() const;
  std::string_view name() const;
};

}  // namespace titan::nki
