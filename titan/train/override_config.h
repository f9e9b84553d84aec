#pragma once

#include <string>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// Modules whose overrides replace nodes of the tree.
struct OverrideConfig {
  std::vector<std::string> imports = {};

  void describe(Fields& f) {
    f("imports", imports,
      "Modules, or functions MODULE.FUNCTION[={\"field\": value}], whose overrides are applied");
  }
};

}  // namespace titan
