#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "titan/config/node.h"
#include "titan/config/poly.h"

/// Config structs are plain aggregates that describe every member once:
///
///   struct RoPEConfig {
///     int64_t dim = 0;
///     double theta = 1e6;
///     void describe(Fields& f) {
///       f("dim", dim, "Head dimension");
///       f("theta", theta, "Rotary base");
///     }
///   };
///   struct CosSinRoPEConfig : RoPEConfig {
///     void describe(Fields& f) { f.base<RoPEConfig>(*this); }
///   };
///
/// `auto& f` does as well, save that C++ then wants `f.template base<...>`. A struct may have `void
/// validate() const` and `void validate(const TrainerConfig&) const`, which throw ConfigError.

namespace titan {

/// An enumerator and the word users write for it.
template <class E>
struct Named {
  std::string_view name;
  E value;
};

/// The words of enum E; specialise once per enum:
/// `template <> inline constexpr auto titan::names<E> = std::to_array<titan::Named<E>>({{"flex", E::flex},
/// ...});`
template <class E>
inline constexpr auto names = nullptr;

/// What a member is. The first row are leaves: one value with a text form.
enum class Kind {
  boolean,
  integer,
  number,
  text,
  texts,
  text_lists,
  integers,
  numbers,
  choice,
  optional,  // leaves
  node,
  slot,
  nodes,
  slots  // structs
};

/// One type of member, without its C++ type. The functions that a kind does not need are null.
struct MemberType {
  Kind kind;
  const std::type_info* info = nullptr;
  void (*copy)(void* to, const void* from) = nullptr;  ///< null for Kind::slot, which is copied as a Slot
  // choice
  size_t num_choices = 0;
  std::string_view (*choice_name)(size_t index) = nullptr;
  int64_t (*choice_value)(size_t index) = nullptr;
  int64_t (*get_choice)(const void* member) = nullptr;
  void (*set_choice)(void* member, int64_t value) = nullptr;
  // optional
  const MemberType* inner = nullptr;
  void* (*value)(void* member) = nullptr;  ///< null when empty
  void* (*emplace)(void* member) = nullptr;
  void (*reset)(void* member) = nullptr;
  // node, nodes: the struct; slot, slots: its base
  const NodeType* type = nullptr;
  std::span<const Alternative> alternatives = {};
  // nodes, slots
  size_t (*size)(const void* member) = nullptr;
  void (*resize)(void* member, size_t size) = nullptr;
  void* (*at)(void* member, size_t index) = nullptr;  ///< the struct, or the Slot
};

namespace detail {

template <class T>
struct MemberTypeOf {
  static_assert(
      !std::is_same_v<T, T>,
      "a config member is a bool, int64_t, double, std::string, an enum with titan::names, a std::optional "
      "of "
      "one of these, a std::vector of int64_t, double or strings, a struct with describe, a Poly, or a "
      "std::vector of structs or Polys");
  static constexpr MemberType value{};
};

template <class T>
constexpr MemberType member_of_kind(Kind kind) {
  return {.kind = kind, .info = &typeid(T), .copy = [](void* to, const void* from) {
            *static_cast<T*>(to) = *static_cast<const T*>(from);
          }};
}

template <>
struct MemberTypeOf<bool> {
  static constexpr MemberType value = member_of_kind<bool>(Kind::boolean);
};
template <>
struct MemberTypeOf<int64_t> {
  static constexpr MemberType value = member_of_kind<int64_t>(Kind::integer);
};
template <>
struct MemberTypeOf<double> {
  static constexpr MemberType value = member_of_kind<double>(Kind::number);
};
template <>
struct MemberTypeOf<std::string> {
  static constexpr MemberType value = member_of_kind<std::string>(Kind::text);
};
template <>
struct MemberTypeOf<std::vector<std::string>> {
  static constexpr MemberType value = member_of_kind<std::vector<std::string>>(Kind::texts);
};
template <>
struct MemberTypeOf<std::vector<std::vector<std::string>>> {
  static constexpr MemberType value = member_of_kind<std::vector<std::vector<std::string>>>(Kind::text_lists);
};
template <>
struct MemberTypeOf<std::vector<int64_t>> {
  static constexpr MemberType value = member_of_kind<std::vector<int64_t>>(Kind::integers);
};
template <>
struct MemberTypeOf<std::vector<double>> {
  static constexpr MemberType value = member_of_kind<std::vector<double>>(Kind::numbers);
};

template <class E>
  requires std::is_enum_v<E>
struct MemberTypeOf<E> {
  static_assert(!std::is_same_v<decltype(names<E>), const std::nullptr_t>,
                "specialise titan::names for this enum");
  static constexpr MemberType value = [] {
    MemberType type = member_of_kind<E>(Kind::choice);
    type.num_choices = names<E>.size();
    type.choice_name = [](size_t i) { return names<E>[i].name; };
    type.choice_value = [](size_t i) { return static_cast<int64_t>(names<E>[i].value); };
    type.get_choice = [](const void* m) { return static_cast<int64_t>(*static_cast<const E*>(m)); };
    type.set_choice = [](void* m, int64_t v) { *static_cast<E*>(m) = static_cast<E>(v); };
    return type;
  }();
};

template <class T>
struct MemberTypeOf<std::optional<T>> {
  static constexpr MemberType value = [] {
    using Optional = std::optional<T>;
    MemberType type = member_of_kind<Optional>(Kind::optional);
    type.inner = &MemberTypeOf<T>::value;
    type.value = [](void* m) -> void* {
      return *static_cast<Optional*>(m) ? &**static_cast<Optional*>(m) : nullptr;
    };
    type.emplace = [](void* m) -> void* { return &static_cast<Optional*>(m)->emplace(); };
    type.reset = [](void* m) { static_cast<Optional*>(m)->reset(); };
    return type;
  }();
};

template <Described T>
struct MemberTypeOf<T> {
  static constexpr MemberType value = [] {
    MemberType type = member_of_kind<T>(Kind::node);
    type.type = &node_type<T>;
    return type;
  }();
};

template <class B>
constexpr std::span<const Alternative> alternatives_of() {
  if constexpr (std::is_same_v<decltype(alternatives<B>), const std::nullptr_t>) {
    return {};
  } else {
    return alternatives<B>;
  }
}

template <class B>
struct MemberTypeOf<Poly<B>> {
  static constexpr MemberType value{.kind = Kind::slot,
                                    .info = &typeid(Poly<B>),
                                    .type = &node_type<B>,
                                    .alternatives = alternatives_of<B>()};
};

template <class V>
constexpr MemberType list_of_kind(Kind kind) {
  MemberType type = member_of_kind<V>(kind);
  type.size = [](const void* m) { return static_cast<const V*>(m)->size(); };
  type.resize = [](void* m, size_t n) { static_cast<V*>(m)->resize(n); };
  return type;
}

template <Described T>
struct MemberTypeOf<std::vector<T>> {
  static constexpr MemberType value = [] {
    using List = std::vector<T>;
    MemberType type = list_of_kind<List>(Kind::nodes);
    type.type = &node_type<T>;
    type.at = [](void* m, size_t i) -> void* { return &(*static_cast<List*>(m))[i]; };
    return type;
  }();
};

template <class B>
struct MemberTypeOf<std::vector<Poly<B>>> {
  static constexpr MemberType value = [] {
    using List = std::vector<Poly<B>>;
    MemberType type = list_of_kind<List>(Kind::slots);
    type.type = &node_type<B>;
    type.alternatives = alternatives_of<B>();
    type.at = [](void* m, size_t i) -> void* { return static_cast<Slot*>(&(*static_cast<List*>(m))[i]); };
    return type;
  }();
};

}  // namespace detail

/// One described member of one struct: borrowed, valid as long as the struct.
struct Field {
  const char* name;
  const char* help;
  Status status;
  const MemberType* type;
  void* member;  ///< for Kind::slot, the Slot
};

/// What `describe` fills: the members in order, those of bases first, and the base parts.
class Fields {
 public:
  /// Describes one member.
  template <class T>
  void operator()(const char* name, T& member, const char* help = "", Status status = Status::works) {
    if constexpr (std::derived_from<T, Slot>) {
      fields_.push_back({name, help, status, &detail::MemberTypeOf<T>::value, static_cast<Slot*>(&member)});
    } else {
      fields_.push_back({name, help, status, &detail::MemberTypeOf<T>::value, &member});
    }
  }

  /// Describes the members inherited from B. First in the `describe` of a derived struct.
  template <class B, class D>
    requires std::derived_from<D, B>
  void base(D& self) {
    add_base(&static_cast<B&>(self), node_type<B>);
  }

  const std::vector<Field>& list() const { return fields_; }
  const std::vector<Node>& bases() const { return bases_; }
  /// The field of that name, or null.
  const Field* find(std::string_view name) const;

 private:
  void add_base(void* part, const NodeType& type);

  std::vector<Field> fields_;
  std::vector<Node> bases_;
};

template <class T>
void detail::describe_node(void* node, Fields& fields) {
  using Owner = typename decltype(describer<T>())::type;
  auto& self = *static_cast<T*>(node);
  // A struct without a describe of its own is still known to derive from its base.
  if constexpr (std::is_same_v<Owner, T>) {
    self.describe(fields);
  } else {
    fields.base<Owner>(self);
  }
}

/// The members and bases of `node`.
Fields fields_of(Node node);

}  // namespace titan
