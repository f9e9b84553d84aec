#pragma once

#include <string>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// A place where a tree differs from the defaults of its root's type.
struct Difference {
  std::string fqn;  ///< `training.steps`; `model_spec.model.layers.[0..27].attention` for equal neighbours
  std::string default_text;  ///< a value, or for structs a type's name or `none`
  std::string text;
  Field field;
};

/// All differences, in order. A struct whose type is not the default's is compared with that type's own
/// defaults.
std::vector<Difference> differences_from_defaults(Node root);

}  // namespace titan
