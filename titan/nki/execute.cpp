#include "titan/nki/error.h"
#include "titan/nki/execute_parts.h"

namespace titan::nki {

namespace {

/// Which part carries out an instruction of these attributes.
struct Executor {
  Core& core;
  const Instruction& instruction;

  void operator()(const DmaCopy&) const { run_dma(core, instruction); }
  void operator()(const DmaTranspose&) const { run_dma(core, instruction); }
  void operator()(const DmaCompute&) const { run_dma(core, instruction); }
  void operator()(const Matmul&) const { run_matmul(core, instruction); }
  void operator()(const Transpose&) const { run_transpose(core, instruction); }
  // Core::issue() brings the cores together itself, also where nothing is executed.
  void operator()(const SendRecv&) const { check(false, "the core carries out sendrecv"); }
  void operator()(const CoreBarrier&) const { check(false, "the core carries out barriers"); }
  void operator()(const DevicePrint&) const { run_device_print(core, instruction); }
  void operator()(const TensorCopy&) const { run_tensor_copy(instruction); }
  void operator()(const TensorCopyPredicated&) const { run_predicated_copy(instruction); }
  void operator()(const Memset&) const { run_memset(instruction); }
  void operator()(const Iota&) const { run_iota(instruction); }
  void operator()(const StreamShuffle&) const { run_shuffle(instruction); }
  void operator()(const TensorTensor&) const { run_tensor_tensor(instruction); }
  void operator()(const TensorScalar&) const { run_tensor_scalar(instruction); }
  void operator()(const ScalarTensorTensor&) const { run_scalar_tensor_tensor(instruction); }
  void operator()(const TensorReduce&) const { run_tensor_reduce(instruction); }
  void operator()(const TensorPartitionReduce&) const { run_partition_reduce(instruction); }
  void operator()(const TensorScalarReduce&) const { run_tensor_scalar_reduce(core, instruction); }
  void operator()(const Activation&) const { run_activation(core, instruction); }
  void operator()(const Reciprocal&) const { run_reciprocal(instruction); }
  void operator()(const AffineSelect&) const { run_affine_select(instruction); }
  void operator()(const RangeSelect&) const { run_range_select(instruction); }
};

}  // namespace

void execute(Core& core, const Instruction& instruction) {
  try {
    std::visit(Executor{core, instruction}, instruction.attributes);
  } catch (const KernelError& error) {
    // What reads rows knows neither the instruction nor its line.
    throw error.at(instruction.where, instruction.describe());
  }
}

}  // namespace titan::nki
