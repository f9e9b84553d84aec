#include "titan/nki/isa.h"

#include <algorithm>
#include <cstring>

#include "titan/nki/core.h"
#include "titan/nki/error.h"
#include "titan/nki/isa_registers.h"
#include "titan/nki/rows.h"
#include "titan/nki/shared_accesses.h"

namespace titan::nki::isa {

namespace {

Engine engine_or(Engine given, Engine usual) { return given == Engine::unknown ? usual : given; }

bool lies_in(const Tensor& tensor, Buffer buffer) { return tensor.defined() && tensor.buffer() == buffer; }

bool is_32_bit_integer(const Tensor& tensor) {
  return tensor.defined() && (tensor.dtype() == Dtype::int32 || tensor.dtype() == Dtype::uint32);
}

/// Queues of any engine may start a DMA; the work is the DMA engines'.
Engine dma_engine(Engine given) {
  const bool starts_dma =
      given == Engine::unknown || given == Engine::sync || given == Engine::scalar || given == Engine::gpsimd;
  return starts_dma ? Engine::dma : given;
}

/// Without the copies that a braced list makes.
template <class... Tensors>
std::vector<Tensor> list_of(Tensors... tensors) {
  std::vector<Tensor> list;
  list.reserve(sizeof...(tensors));
  (list.push_back(std::move(tensors)), ...);
  return list;
}

void issue(Engine engine, Tensor dst, std::vector<Tensor> sources, Attributes attributes, const Where& where,
           Tensor reduce_dst = {}) {
  current_core().issue({.engine = engine,
                        .dst = std::move(dst),
                        .sources = std::move(sources),
                        .reduce_dst = std::move(reduce_dst),
                        .attributes = std::move(attributes),
                        .where = where});
}

}  // namespace

void dma_copy(Tensor dst, Tensor src, DmaOptions options, const Where& where) {
  issue(dma_engine(options.engine), std::move(dst), list_of(std::move(src)),
        DmaCopy{.oob_mode = options.oob_mode}, where);
}

void dma_transpose(Tensor dst, Tensor src, DmaTransposeOptions options, const Where& where) {
  issue(Engine::dma, std::move(dst), list_of(std::move(src)), DmaTranspose{.axes = std::move(options.axes)},
        where);
}

void dma_compute(Tensor dst, std::vector<Tensor> srcs, DmaComputeOptions options, const Where& where) {
  issue(Engine::dma, std::move(dst), std::move(srcs),
        DmaCompute{.reduce = options.reduce_op, .unique_indices = options.unique_indices}, where);
}

void tensor_copy(Tensor dst, Tensor src, EngineOptions options, const Where& where) {
  issue(engine_or(options.engine, Engine::vector), std::move(dst), list_of(std::move(src)), TensorCopy{},
        where);
}

void tensor_copy_predicated(Tensor dst, Tensor src, Tensor predicate, PredicateOptions options,
                            const Where& where) {
  issue(Engine::vector, std::move(dst), list_of(std::move(src), std::move(predicate)),
        TensorCopyPredicated{.reverse = options.reverse_pred}, where);
}

void memset(Tensor dst, double value, EngineOptions options, const Where& where) {
  issue(engine_or(options.engine, Engine::vector), std::move(dst), {}, Memset{.value = value}, where);
}

void iota(Tensor dst, Pattern pattern, IotaOptions options, const Where& where) {
  issue(Engine::gpsimd, std::move(dst), {},
        Iota{.pattern = std::move(pattern),
             .offset = options.offset,
             .channel_multiplier = options.channel_multiplier},
        where);
}

void nc_transpose(Tensor dst, Tensor data, EngineOptions options, const Where& where) {
  const Engine usual = lies_in(dst, Buffer::psum) ? Engine::tensor : Engine::vector;
  issue(engine_or(options.engine, usual), std::move(dst), list_of(std::move(data)), Transpose{}, where);
}

void nc_stream_shuffle(Tensor dst, Tensor src, const std::array<uint8_t, 32>& shuffle_mask,
                       const Where& where) {
  issue(Engine::vector, std::move(dst), list_of(std::move(src)), StreamShuffle{.mask = shuffle_mask}, where);
}

void sendrecv(Tensor src, Tensor dst, SendRecvOptions options, const Where& where) {
  issue(Engine::dma, std::move(dst), list_of(std::move(src)),
        SendRecv{
            .send_to = options.send_to_rank, .receive_from = options.recv_from_rank, .pipe = options.pipe_id},
        where);
}

void core_barrier(Tensor data, std::array<int64_t, 2> cores, EngineOptions options, const Where& where) {
  if (cores != std::array<int64_t, 2>{0, 1}) {
    throw KernelError(
        "core_barrier.cores",
        format("core_barrier({}): cores must be {0, 1}, got {{}, {}}: a barrier is of both cores of a "
               "logical one",
               data.defined() ? data.describe() : "no tensor", cores[0], cores[1]),
        where);
  }
  issue(engine_or(options.engine, Engine::gpsimd), {}, list_of(std::move(data)), CoreBarrier{}, where);
}

namespace {

/// Of a register's number in HBM that the other core sees.
void note_access(const SharedAccesses::Act& act, const Tensor& tensor) {
  SharedAccesses* accesses = current_core().shared_accesses();
  if (accesses == nullptr || tensor.buffer() != Buffer::shared_hbm) return;
  for_each_run(resolved(tensor), [&](std::byte* bytes, int64_t, int64_t) {
    accesses->note(act, tensor, {reinterpret_cast<int64_t>(bytes), 4, {}});
  });
}

/// Runs `act`, which knows the tensor but neither the call nor its line.
template <class Act>
void act_at_once(std::string_view name, const Tensor& tensor, const Where& where, bool writes,
                 const Act& act) {
  Core& core = current_core();
  core.count_call(name, where);
  check_register_tensor(name, tensor, where);
  try {
    core.check_reaches(tensor);
    if (core.options().mode == RunMode::shapes) return;
    act();
    note_access({name, where, writes}, tensor);
  } catch (const KernelError& error) {
    throw error.at(where, format("{}({})", name, tensor.describe()));
  }
}

}  // namespace

void register_load(Register& to, Tensor from, const Where& where) {
  act_at_once("register_load", from, where, false, [&] { to.set(load_number(from)); });
}

void register_store(Tensor to, const Register& from, const Where& where) {
  act_at_once("register_store", to, where, true, [&] { store_number(to, from.value()); });
  note_change(to);
}

void nc_matmul(Tensor dst, Tensor stationary, Tensor moving, MatmulOptions options, const Where& where) {
  issue(Engine::tensor, std::move(dst), list_of(std::move(stationary), std::move(moving)),
        Matmul{.is_transpose = options.is_transpose,
               .accumulate = options.accumulate,
               .perf_mode = options.perf_mode,
               .stationary_onezero = options.is_stationary_onezero,
               .moving_onezero = options.is_moving_onezero},
        where);
}

void tensor_tensor(Tensor dst, Tensor data1, Tensor data2, Operation op, EngineOptions options,
                   const Where& where) {
  const bool integers = is_32_bit_integer(dst) && is_32_bit_integer(data1) && is_32_bit_integer(data2);
  const bool any_psum =
      lies_in(dst, Buffer::psum) || lies_in(data1, Buffer::psum) || lies_in(data2, Buffer::psum);
  const bool exact = integers && !is_bitvector(op) && !any_psum;
  const Engine usual = exact || op == Operation::power ? Engine::gpsimd : Engine::vector;
  issue(engine_or(options.engine, usual), std::move(dst), list_of(std::move(data1), std::move(data2)),
        TensorTensor{.op = op}, where);
}

void tensor_scalar(Tensor dst, Tensor data, Operation op0, ScalarOperand operand0,
                   TensorScalarOptions options, const Where& where) {
  issue(engine_or(options.engine, Engine::vector), std::move(dst), list_of(std::move(data)),
        TensorScalar{.op0 = op0,
                     .op1 = options.op1,
                     .operand0 = std::move(operand0),
                     .operand1 = std::move(options.operand1),
                     .reverse0 = options.reverse0,
                     .reverse1 = options.reverse1},
        where);
}

void scalar_tensor_tensor(Tensor dst, Tensor data, Operation op0, ScalarOperand operand0, Operation op1,
                          Tensor operand1, ScalarTensorTensorOptions options, const Where& where) {
  issue(Engine::vector, std::move(dst), list_of(std::move(data), std::move(operand1)),
        ScalarTensorTensor{.op0 = op0,
                           .op1 = op1,
                           .operand0 = std::move(operand0),
                           .reverse0 = options.reverse0,
                           .reverse1 = options.reverse1},
        where);
}

void tensor_reduce(Tensor dst, Operation op, Tensor data, std::vector<int64_t> axis,
                   TensorReduceOptions options, const Where& where) {
  issue(
      Engine::vector, std::move(dst), list_of(std::move(data)),
      TensorReduce{.op = op, .axes = std::move(axis), .negate = options.negate, .keepdims = options.keepdims},
      where);
}

void tensor_partition_reduce(Tensor dst, Operation op, Tensor data, const Where& where) {
  issue(Engine::gpsimd, std::move(dst), list_of(std::move(data)), TensorPartitionReduce{.op = op}, where);
}

void tensor_scalar_reduce(Tensor dst, Tensor data, Operation op0, ScalarOperand operand0, Operation reduce_op,
                          Tensor reduce_res, TensorScalarReduceOptions options, const Where& where) {
  issue(Engine::vector, std::move(dst), list_of(std::move(data)),
        TensorScalarReduce{.op0 = op0,
                           .reduce = reduce_op,
                           .operand0 = std::move(operand0),
                           .reduce_init = std::move(options.reduce_init),
                           .reverse0 = options.reverse0,
                           .negate = options.reduce_res_negate,
                           .command = options.reduce_cmd},
        where, std::move(reduce_res));
}

namespace {

Activation activation_of(Operation op, ActivationOptions& options) {
  const bool has_bias = options.bias.is_tensor() || options.bias.constant != 0;
  return {.op = op,
          .bias = std::move(options.bias),
          .scale = std::move(options.scale),
          .reduce = options.reduce_op,
          .command = options.reduce_cmd,
          .has_bias = has_bias};
}

}  // namespace

void activation(Tensor dst, Operation op, Tensor data, ActivationOptions options, const Where& where) {
  issue(Engine::scalar, std::move(dst), list_of(std::move(data)), activation_of(op, options), where,
        std::move(options.reduce_res));
}

void activation_reduce(Tensor dst, Operation op, Tensor data, Operation reduce_op, Tensor reduce_res,
                       ActivationOptions options, const Where& where) {
  Activation attributes = activation_of(op, options);
  attributes.reduce = reduce_op;
  attributes.command = ReduceCommand::reset_reduce;
  attributes.is_reduce = true;
  issue(Engine::scalar, std::move(dst), list_of(std::move(data)), std::move(attributes), where,
        std::move(reduce_res));
}

void reciprocal(Tensor dst, Tensor data, EngineOptions options, const Where& where) {
  issue(engine_or(options.engine, Engine::vector), std::move(dst), list_of(std::move(data)), Reciprocal{},
        where);
}

void affine_select(Tensor dst, Pattern pattern, int64_t channel_multiplier, Tensor on_true_tile,
                   double on_false_value, AffineSelectOptions options, const Where& where) {
  issue(Engine::gpsimd, std::move(dst), list_of(std::move(on_true_tile)),
        AffineSelect{.pattern = std::move(pattern),
                     .offset = options.offset,
                     .channel_multiplier = channel_multiplier,
                     .on_false = on_false_value,
                     .compare = options.cmp_op},
        where);
}

void range_select(Tensor dst, Tensor on_true_tile, Operation comp_op0, Operation comp_op1,
                  ScalarOperand bound0, ScalarOperand bound1, RangeSelectOptions options,
                  const Where& where) {
  issue(Engine::vector, std::move(dst), list_of(std::move(on_true_tile)),
        RangeSelect{.compare0 = comp_op0,
                    .compare1 = comp_op1,
                    .bound0 = std::move(bound0),
                    .bound1 = std::move(bound1),
                    .range_start = options.range_start},
        where, std::move(options.reduce_res));
}

}  // namespace titan::nki::isa
