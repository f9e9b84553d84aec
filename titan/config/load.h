#pragma once

#include <span>
#include <string_view>

#include "titan/base/json.h"
#include "titan/config/fields.h"

namespace titan {

/// Makes the struct that `json` (of to_json(Node)) describes. Its "type", and those of polymorphic places
/// inside, are looked up in `types`, the alternatives of the place and the type that stands there by default.
/// Fields that are not given keep their defaults. ConfigError naming `what` and the path for unknown types
/// and fields and for values that do not fit.
AnyNode load_config(const Json& json, std::span<const NodeType* const> types, std::string_view what);

/// Sets the fields of a struct that the object `json` names. ConfigError as above.
void load_fields(Node node, const Json& json, std::string_view what);

}  // namespace titan
