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

  /// The same error with the kernel's line in front, unless it names one; `doing`, when there is any, says
  /// what was being done: "tensor_copy(...)".
  KernelError at(const std::source_location& where, std::string_view doing = "") const;

  std::string rule;  ///< "matmul.moving-free-size": the heading in docs/write_a_kernel.md
  std::string text;  ///< the message without the rule and the place
  bool has_place = false;
};

}  // namespace titan::nki
