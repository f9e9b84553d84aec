#pragma once

#include <vector>

#include "apps/titan/torch_commands/kernel_library.h"

namespace titan {

/// Prints a line for each result of a kernel: name and value, or name, shape, dtype, sum, checksum, and how
/// many of its elements no instruction has written, which is also a warning. Where that is not known (memory
/// that torch gave the kernel, or a copy of the kernel's), NaN are counted.
void print_results(const std::vector<KernelResult>& results);

}  // namespace titan
