#pragma once

#include <functional>
#include <string>

#include "titan/nki/instruction.h"

namespace titan::nki {

/// Calls `visit` with each tensor that an instruction names: destinations, sources, scalar operands.
void for_each_tensor(Instruction& instruction, const std::function<void(Tensor&)>& visit);

/// What an instruction does to a tensor's memory.
enum class Access : uint8_t { read, write, read_write };

/// Calls `visit` with each tensor that an instruction reads or writes; offsets of indirect views too.
void for_each_access(const Instruction& instruction, const std::function<void(const Tensor&, Access)>& visit);

/// The tensor that a CoreBarrier is over.
const Tensor& barrier_data(const Instruction& instruction);

/// "tensor_copy(...) at kernel.cpp:12".
std::string describe_at(const Instruction& instruction);

}  // namespace titan::nki
