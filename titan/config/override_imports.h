#pragma once

#include <optional>
#include <string>
#include <vector>

#include "titan/base/json.h"
#include "titan/config/override.h"

namespace titan {

/// One entry of override.imports: a module, or a function of one with what it is given.
struct OverrideImport {
  std::string target;                 ///< "module" or "module.function"
  std::optional<Json> settings = {};  ///< an object

  bool operator==(const OverrideImport&) const = default;
};

/// Reads `MODULE`, `MODULE.FUNCTION` and `MODULE.FUNCTION={"field": value}`. ConfigError with the reason for
/// what is no JSON object.
std::vector<OverrideImport> parse_override_imports(const std::vector<std::string>& words);

/// The overrides that the words name: those of a module, or that of one of its functions (where no module has
/// that name), each named after its function where it has no name. Errors as load_module and above;
/// ConfigError when there are none, none of that function, or settings for a function that takes none.
std::vector<Override> import_overrides(const std::vector<std::string>& words);

}  // namespace titan
