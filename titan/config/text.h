#pragma once

#include <string>
#include <string_view>

#include "titan/base/json.h"
#include "titan/config/fields.h"

namespace titan {

/// True for members that hold one value with a text form; false for structs, slots and lists of them.
bool is_leaf(const MemberType& type);

/// What users read: "int", "flex|sdpa|varlen", "list of str", "float or none".
std::string kind_name(const MemberType& type);

/// The text that set_text() reads back: `3`, `1e-08`, `true`, `a,b`, `none`.
std::string to_text(const MemberType& type, const void* member);

/// Reads `text` into the leaf. The whole text must be a value of the type and in its range; lists take
/// commas (those inside a JSON object are its own), lists of lists semicolons between them. ConfigError
/// "expects an int, got '3x'" otherwise, the member then unchanged.
void set_text(const MemberType& type, void* member, std::string_view text);

/// The leaf as JSON: null for an empty optional, words for enums, "inf" for what JSON has no number for.
Json to_json(const MemberType& type, const void* member);

/// Reads what to_json() made. ConfigError "expects an int, found a string" otherwise, the member then
/// unchanged.
void set_json(const MemberType& type, void* member, const Json& value);

}  // namespace titan
