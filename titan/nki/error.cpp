#include "titan/nki/error.h"

#include "titan/base/strings.h"

namespace titan::nki {

KernelError::KernelError(std::string_view rule_name, std::string_view what)
    : ValueError("{} [{}]", what, rule_name), rule(rule_name) {}

KernelError::KernelError(std::string_view rule_name, std::string_view what, const std::source_location& where)
    : ValueError("{}:{}: {} [{}]", where.file_name(), where.line(), what, rule_name), rule(rule_name) {}

}  // namespace titan::nki
