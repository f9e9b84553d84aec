#pragma once

#include <cstdint>
#include <source_location>
#include <string_view>

#include "titan/nki/tensor.h"

namespace titan::nki::isa {

/// What register_load and register_store take: one int32 or uint32 in SBUF or HBM. KernelError otherwise.
void check_register_tensor(std::string_view name, const Tensor& tensor, const std::source_location& where);

/// The number there; KernelError when it was never written.
int64_t load_number(const Tensor& from);
void store_number(const Tensor& to, int64_t number);

}  // namespace titan::nki::isa
