#include "titan/base/env.h"

#include <cstdlib>

namespace titan {

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (!value || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace titan
