#include "titan/config/override.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/base/strings.h"
#include "titan/config/module_error.h"

namespace titan {

namespace {

constexpr std::string_view kModelPrefix = "model_spec.model.";

bool path_matches(const Override& by, std::string_view fqn) {
  if (by.fqns.empty()) return true;
  return std::ranges::any_of(by.fqns, [&](const std::string& glob) {
    return glob_match(glob, fqn) ||
           (fqn.starts_with(kModelPrefix) && glob_match(glob, fqn.substr(kModelPrefix.size())));
  });
}

bool type_matches(const Override& by, Node node) {
  return match_type(node, *by.target, by.exact ? Match::exact : Match::derived) != nullptr;
}

void require_sound(std::span<const Override> overrides) {
  std::set<std::string> seen;
  for (const Override& one : overrides) {
    if (one.target == nullptr || !one.replace) {
      throw ConfigError("override '{}' has no {}: make it with override<TYPE>({...}, FUNCTION)", one.name,
                        one.target == nullptr ? "target type" : "function");
    }
    if (!seen.insert(one.name).second)
      throw ConfigError("two overrides are named '{}': rename one", one.name);
  }
}

/// Says why nothing matched: the type is nowhere, or it is, but under other names.
void warn_no_match(const Override& by, const std::vector<Place>& places) {
  std::vector<std::string> paths, types;
  std::set<std::string> derived;  // what `exact` leaves out
  for (const Place& place : places) {
    if (type_matches(by, place.node)) paths.push_back(place.fqn);
    types.push_back(type_name(*place.node.type));
    if (match_type(place.node, *by.target, Match::derived)) derived.insert(types.back());
  }
  const std::string target = type_name(*by.target);
  if (paths.empty()) {
    const std::string hint =
        derived.empty() ? did_you_mean(target, types)
                        : format("; derived from it: {}", join({derived.begin(), derived.end()}, ", "));
    return warn_once(
        format("[Override] {}: no node of type {}{}{}", by.name, target, by.exact ? " (exact)" : "", hint));
  }
  // A glob matches whole paths, so the closest whole path is what helps.
  const auto distance = [&](const std::string& path) { return edit_distance(by.fqns.front(), path); };
  const std::string closest = *std::ranges::min_element(paths, {}, distance);
  warn_once(format("[Override] {}: none of the {} nodes of type {} matches {}; the nearest is {}", by.name,
                   paths.size(), target, join(by.fqns, ", "), closest));
}

bool is_inside(std::string_view inner, std::string_view outer) {
  return inner == outer || (inner.starts_with(outer) && inner.substr(outer.size()).starts_with('.'));
}

void require_disjoint(const std::vector<OverrideClaim>& claims) {
  // A '.' sorts before every letter and digit of a name, so a node stands directly before what lies inside
  // it.
  std::vector<const OverrideClaim*> sorted;
  for (const OverrideClaim& claim : claims) sorted.push_back(&claim);
  std::ranges::sort(sorted, {},
                    [](const OverrideClaim* claim) -> const std::string& { return claim->place.fqn; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const OverrideClaim &outer = *sorted[i - 1], &inner = *sorted[i];
    if (!is_inside(inner.place.fqn, outer.place.fqn)) continue;
    throw ConfigError("overrides '{}' and '{}' both claim {}{}: narrow the fqns of one", outer.by->name,
                      inner.by->name, inner.place.fqn,
                      inner.place.fqn == outer.place.fqn ? "" : format(", inside {}", outer.place.fqn));
  }
}

/// The replacement for a claimed node; errors of the user's function say which override and node they are
/// about.
AnyNode make_replacement(const OverrideClaim& claim) {
  void* part = upcast(claim.place.node, *claim.by->target);
  try {
    return claim.by->replace(part);
  } catch (const ConfigError& error) {
    throw ConfigError("override '{}' at {}: {}", claim.by->name, claim.place.fqn, error.what());
  } catch (...) {
    throw CommonError("override '{}' at {}: {}", claim.by->name, claim.place.fqn, thrown_text());
  }
}

/// One line, whatever white space is in it.
std::string description_line(const Override& by) {
  std::string line = format("  {}:", by.name);
  std::istringstream words(by.description);
  for (std::string word; words >> word;) line += " " + word;
  return line;
}

void put(const OverrideClaim& claim, Node value) {
  const Place& place = claim.place;
  try {
    if (!value) throw ConfigError("the function returns nothing");
    if (place.slot != nullptr) return place.slot->assign(value);
    if (same_type(*place.node.type, *value.type)) return value.type->assign(place.node.data, value.data);
    throw ConfigError("a {} does not fit here: the place holds a {} and nothing else", type_name(*value.type),
                      type_name(*place.node.type));
  } catch (const ConfigError& error) {
    throw ConfigError("override '{}' at {}: {}", claim.by->name, place.fqn, error.what());
  }
}

}  // namespace

std::vector<OverrideClaim> claim_nodes(Node root, std::span<const Override> overrides) {
  require_sound(overrides);
  const std::vector<Place> places = places_of(root);
  std::vector<OverrideClaim> claims;
  for (const Override& by : overrides) {
    const size_t before = claims.size();
    for (const Place& place : places) {
      if (type_matches(by, place.node) && path_matches(by, place.fqn)) claims.push_back({&by, place});
    }
    if (claims.size() > before && claims[before].place.fqn.empty()) {
      throw ConfigError("override '{}' claims the whole {}: only what lies inside it can be replaced",
                        by.name, type_name(*root.type));
    }
    if (claims.size() == before) warn_no_match(by, places);
  }
  require_disjoint(claims);
  return claims;
}

std::vector<std::string> apply_overrides(Node root, std::span<const Override> overrides) {
  std::vector<std::string> lines;
  if (overrides.empty()) return lines;
  const std::vector<OverrideClaim> claims = claim_nodes(root, overrides);
  const Override* described = nullptr;
  for (const OverrideClaim& claim : claims) {
    const std::string old_type = type_name(*claim.place.node.type);
    const AnyNode value = make_replacement(claim);
    put(claim, value.node());
    lines.push_back(format("[Override] {}: {} {} -> {}", claim.by->name, claim.place.fqn, old_type,
                           type_name(*value.node().type)));
    if (claim.by != described && !claim.by->description.empty()) lines.push_back(description_line(*claim.by));
    described = claim.by;
  }
  if (!claims.empty()) lines.push_back(format("Applied {} override(s)", claims.size()));
  return lines;
}

}  // namespace titan
