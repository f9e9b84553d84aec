#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string_view>

#include "titan/config/fields.h"

namespace titan {

/// One field set by name and text: {"lnc", "2"}.
struct Delta {
  std::string_view field;
  std::string_view value;
};

/// Copies the value of every field of `from` whose name `to` has too, nested structs and lists included.
/// ConfigError when such a pair has different types. Fields that only one of them has stay as they are.
void copy_shared_fields(Node to, Node from);

/// Sets fields of `node` by name; ConfigError for a name it does not have or a value that does not fit.
void apply_deltas(Node node, std::initializer_list<Delta> deltas);

/// A `To` with the values of all fields that it shares with `from`, and its own defaults elsewhere.
template <Described To, Described From>
To derive(const From& from) {
  To to{};
  if constexpr (std::derived_from<To, From>) static_cast<From&>(to) = from;
  copy_shared_fields(node_of(to), node_of(from));
  return to;
}

/// The same, with some fields set by name: `derive<NKIRoPEConfig>(config, {{"lnc", "2"}})`.
template <Described To, Described From>
To derive(const From& from, std::initializer_list<Delta> deltas) {
  To to = derive<To>(from);
  apply_deltas(node_of(to), deltas);
  return to;
}

/// The same, finished by `edit(to)`: `derive<NKIRoPEConfig>(config, [](auto& to) { to.lnc = 2; })`.
template <Described To, Described From, std::invocable<To&> Edit>
To derive(const From& from, Edit edit) {
  To to = derive<To>(from);
  edit(to);
  return to;
}

}  // namespace titan
