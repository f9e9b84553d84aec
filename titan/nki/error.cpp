#include "titan/nki/error.h"

#include "titan/base/strings.h"

namespace titan::nki {

KernelError::KernelError(std::string_view rule_name, std::string_view what)
    : ValueError("{} [{}]", what, rule_name), rule(rule_name), text(what) {}

KernelError::KernelError(std::string_view rule_name, std::string_view what, const std::source_location& where)
    : ValueError("{}:{}: {} [{}]", where.file_name(), where.line(), what, rule_name),
      rule(rule_name),
      text(what),
      has_place(true) {}

KernelError KernelError::at(const std::source_location& where, std::string_view doing) const {
  if (has_place) return *this;
  return {rule, doing.empty() ? text : format("{}: {}", doing, text), where};
}

}  // namespace titan::nki
