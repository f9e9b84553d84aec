#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "titan/config/fields.h"

namespace titan {

namespace detail {

/// Initialises a member of any type; never evaluated. `Self` is left out, so that a struct is not copied from
/// it.
template <class Self>
struct AnyMember {
  template <class T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, Self>)
  operator T() const noexcept;
};

template <class T, size_t... I>
consteval bool takes_members(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyMember<T>{})...}; };
}

}  // namespace detail

/// How many initialisers an aggregate takes: its members, and one for each base.
template <class T, size_t N = 0>
consteval size_t arity() {
  if constexpr (detail::takes_members<T>(std::make_index_sequence<N + 1>{})) {
    return arity<T, N + 1>();
  } else {
    return N;
  }
}

/// How many members of T its `describe` names, each direct base counting as one: equal to arity<T>() unless
/// one is forgotten.
template <Described T>
size_t described_arity() {
  T config{};
  const Fields fields = fields_of(node_of(config));
  size_t count = fields.list().size(), inherited = 0;
  if (!fields.bases().empty()) {
    // The first base noted is the direct one; those after it are its own bases.
    inherited = fields_of(fields.bases().front()).list().size();
    count += 1;
  }
  return count - inherited;
}

}  // namespace titan
