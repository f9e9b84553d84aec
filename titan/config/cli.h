#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// Sets fields of `root` from command line words:
///
///   --training.steps 10   --training.steps=10     any leaf but a bool; lists take commas, an empty optional
///   is `none`
///   --debug.deterministic --debug.no_deterministic   a bool; also --no-debug.deterministic
///   activation_checkpoint:full                    puts an alternative's defaults into a polymorphic section;
///                                                 also --activation_checkpoint full
///   --model_spec.model.layers.*.attention.mask causal   every element of a list
///
/// `-` and `_` are alike in names. Alternatives are chosen first, then values are set from left to right, the
/// last one wins. ConfigError for unknown names (with the nearest), missing or wrong values, and a value
/// given to a bool.
void set_from_command_line(Node root, std::span<const std::string> words);

/// Removes `--name VALUE` or `--name=VALUE` from `words` wherever it stands; the last one wins. ConfigError
/// when the value is missing.
std::optional<std::string> take_option(std::vector<std::string>& words, std::string_view name);

/// Removes the flag `--name` from `words`; true when it was there.
bool take_flag(std::vector<std::string>& words, std::string_view name);

}  // namespace titan
