#pragma once

#include <source_location>
#include <string>
#include <string_view>

#include "titan/base/error.h"

namespace titan::nki {

/// A kernel that breaks a rule of the device or of the language. The message names the rule, the
/// instruction with its operands, and the line of the kernel.
struct KernelError : ValueError {
  KernelError(std::string_view rule, std::string_view what);
  KernelError(std::string_view rule, std::string_view what, const std::source_location& where);

  std::string rule;  ///< "matmul.moving-free-size": the heading in docs/write_a_kernel.md
};

}  // namespace titan::nki
