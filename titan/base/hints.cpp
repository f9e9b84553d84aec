#include "titan/base/hints.h"

#include <cctype>

#include "titan/base/strings.h"

namespace titan {

std::string did_you_mean_of(std::string_view name, const std::vector<std::string>& names,
                            std::string_view it_has) {
  const std::string hint = did_you_mean(name, names);
  std::string said(it_has);
  if (!hint.empty()) said[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(said[0])));
  return format("{}{} {} {}", hint, hint.empty() ? ";" : "", said,
                names.empty() ? std::string("none") : join(names, ", "));
}

}  // namespace titan
