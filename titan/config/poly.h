#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "titan/config/node.h"

namespace titan {

/// How far a setting is supported.
enum class Status {
  works,
  refused,     ///< anything but the default stops with "is not built yet"
  no_meaning,  ///< anything but the default warns once: it has no effect here
};

/// One of the types that a polymorphic slot offers by name, on the command line as `--section:name`.
struct Alternative {
  std::string_view name;
  const NodeType* type;
  std::string_view help = "";
  Status status = Status::works;
};

/// The types that slots of base B offer by name; none unless specialised after the types are defined:
/// `template <> inline constexpr auto titan::alternatives<B> = std::to_array<titan::Alternative>({...});`
template <class B>
inline constexpr auto alternatives = nullptr;

/// The typeless half of Poly: an owned struct whose type is, or derives from, a given base.
class Slot {
 public:
  Node node() const { return node_; }
  const NodeType& base_type() const { return *base_; }
  explicit operator bool() const { return static_cast<bool>(node_); }

  /// Takes a copy of `value`; ConfigError when its type does not derive from the slot's base.
  void assign(Node value);
  /// Empties the slot.
  void reset();

 protected:
  explicit Slot(const NodeType& base) : base_(&base) {}
  Slot(const NodeType& base, Node owned, void* part) : base_(&base), node_(owned), part_(part) {}
  Slot(const Slot& other);
  Slot(Slot&& other) noexcept
      : base_(other.base_), node_(std::exchange(other.node_, {})), part_(other.part_) {}
  Slot& operator=(const Slot& other);
  Slot& operator=(Slot&& other) noexcept;
  ~Slot() { reset(); }

  /// The base part of the value; throws std::logic_error when the slot is empty.
  void* part() const;
  ModulePtr build_value() const;

 private:
  const NodeType* base_;
  Node node_;
  void* part_ = nullptr;  ///< node_ seen as the base
};

/// A slot in a config tree that holds a value of `Base` or of any struct derived from it. Copies are deep.
template <class Base>
class Poly final : public Slot {
 public:
  Poly() : Slot(node_type<Base>) {}
  template <class T>
    requires std::derived_from<T, Base> && Described<T>
  Poly(T value) : Poly(new T(std::move(value))) {}

  Base* operator->() { return static_cast<Base*>(part()); }
  const Base* operator->() const { return static_cast<const Base*>(part()); }
  Base& operator*() { return *static_cast<Base*>(part()); }
  const Base& operator*() const { return *static_cast<const Base*>(part()); }

  /// The value as a T, or null when it is something else.
  template <class T>
  T* get() {
    return as<T>(node());
  }
  template <class T>
  const T* get() const {
    return as<T>(node());
  }

  /// Makes the module that the value describes.
  ModulePtr build() const { return build_value(); }

 private:
  template <class T>
  explicit Poly(T* owned) : Slot(node_type<Base>, {owned, &node_type<T>}, static_cast<Base*>(owned)) {}
};

}  // namespace titan
