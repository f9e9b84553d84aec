#pragma once

#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "titan/config/fields.h"
#include "titan/config/walk.h"

namespace titan {

/// What an override may narrow.
struct OverrideOptions {
  std::string name = {};  ///< default: the name of the function that returns the override
  std::vector<std::string> fqns =
      {};              ///< globs over the full path, or the path below `model_spec.model.`; none: all
  bool exact = false;  ///< only the very target type, not what derives from it
  std::string description = {};  ///< told once, under the first line of what the override replaces
};

/// Replaces nodes of a config tree before anything is built.
struct Override {
  std::string name = {};
  const NodeType* target = nullptr;
  std::vector<std::string> fqns = {};
  bool exact = false;
  std::string description = {};
  std::function<AnyNode(void* target_part)> replace = {};  ///< takes the node as the target type
};

/// Replaces nodes of type Target by what `replace(const Target&)` returns:
///
///   Override nki_rope() {
///     return override<CosSinRoPEConfig>({.exact = true, .description = "a kernel for the rotation"},
///                                       [](const auto& config) { return derive<NKIRoPEConfig>(config); });
///   }
template <Described Target, class Replace>
  requires std::is_invocable_v<Replace, const Target&>
Override override(OverrideOptions options, Replace replace) {
  using Result = std::invoke_result_t<Replace, const Target&>;
  static_assert(Described<Result>, "an override returns a config struct");
  return {std::move(options.name),
          &node_type<Target>,
          std::move(options.fqns),
          options.exact,
          std::move(options.description),
          [replace](void* part) { return AnyNode(replace(*static_cast<const Target*>(part))); }};
}

/// One node that an override replaces.
struct OverrideClaim {
  const Override* by;
  Place place;
};

/// The nodes of the tree as it is now that the overrides claim, in the order of the overrides. Warns for an
/// override that claims none, once, naming the nearest. ConfigError for two overrides of one name, for one
/// that override<TYPE>() has not made, for a node claimed twice or inside another claimed one, and for a
/// claim of the root.
std::vector<OverrideClaim> claim_nodes(Node root, std::span<const Override> overrides);

/// Claims, then replaces. Returns one line per node, `[Override] NAME: FQN Old -> New`, under the first of an
/// override its description, and `Applied N override(s)`; nothing without overrides. ConfigError when a
/// replacement does not fit its place.
std::vector<std::string> apply_overrides(Node root, std::span<const Override> overrides);

}  // namespace titan
