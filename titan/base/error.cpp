#include "titan/base/error.h"

namespace titan {

void check(bool condition, std::string_view fact, const std::source_location& place) {
  if (condition) return;
  throw std::logic_error(
      format("internal error: {} does not hold ({}:{})", fact, place.file_name(), place.line()));
}

}  // namespace titan
