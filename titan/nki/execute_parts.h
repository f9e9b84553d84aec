#pragma once

#include "titan/nki/core.h"

/// Parts of execute(): each carries out one family of instructions that check_instruction has let through.
/// KernelError for what only data shows.
namespace titan::nki {

void run_dma(Core& core, const Instruction& instruction);  ///< dma_copy, dma_transpose, dma_compute
void run_matmul(Core& core, const Instruction& instruction);
void run_transpose(Core& core, const Instruction& instruction);  ///< nc_transpose of TensorE and VectorE

void run_tensor_copy(const Instruction& instruction);
void run_predicated_copy(const Instruction& instruction);
void run_memset(const Instruction& instruction);
void run_iota(const Instruction& instruction);
void run_shuffle(const Instruction& instruction);
void run_tensor_tensor(const Instruction& instruction);
void run_tensor_scalar(const Instruction& instruction);
void run_scalar_tensor_tensor(const Instruction& instruction);
void run_tensor_reduce(const Instruction& instruction);
void run_partition_reduce(const Instruction& instruction);
void run_tensor_scalar_reduce(Core& core, const Instruction& instruction);
void run_activation(Core& core, const Instruction& instruction);
void run_reciprocal(const Instruction& instruction);
void run_affine_select(const Instruction& instruction);
void run_range_select(const Instruction& instruction);
void run_device_print(const Core& core, const Instruction& instruction);

}  // namespace titan::nki
