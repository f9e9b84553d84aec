#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace titan {

class Fields;
class Module;
using ModulePtr = std::shared_ptr<Module>;
struct TrainerConfig;

/// Makes the module that `config` describes. Only declared here: the library that owns the module specialises
/// it, `template <> ModulePtr build(const LinearConfig& config) { ... }`. Weak, so that programs which only
/// look at configurations need no such library.
template <class C>
[[gnu::weak, gnu::visibility("default")]] ModulePtr build(const C& config);

namespace detail {
/// Its address identifies the shared object this code was compiled into: hidden, so every one has its own.
[[gnu::visibility("hidden")]] inline char shared_object;
}  // namespace detail

/// What the config library knows about one struct type, without its C++ type. One constant per type.
struct NodeType {
  const std::type_info* info;
  const void* module;  ///< the shared object that compiled it: two user modules may have types of one name
  void (*describe)(void* node, Fields& fields);
  void* (*create)();
  void* (*clone)(const void* node);
  void (*destroy)(void* node);
  void (*assign)(void* to, const void* from);
  ModulePtr (*build)(const void* node);
  void (*validate)(const void* node);                           ///< null: none
  void (*validate_in)(const void* node, const TrainerConfig&);  ///< null: none
};

/// A borrowed, typeless reference to one struct of a config tree.
struct Node {
  void* data = nullptr;
  const NodeType* type = nullptr;
  explicit operator bool() const { return data != nullptr; }
};

/// True when both describe one type: equal names, and of the same shared object unless the type is titan's
/// own.
bool same_type(const NodeType& a, const NodeType& b);

/// The name users read: `CosSinRoPEConfig`, or `NKIRoPE.Config` for a struct inside a class. Namespaces are
/// left out.
std::string type_name(const NodeType& type);

/// The part of `node` that is of type `base` (itself included), or null. Follows the `f.base<Base>(*this)`
/// lines.
void* upcast(Node node, const NodeType& base);

/// ValueError unless `builder`, the address of a weak build<C>, is there. Out of line because g++ takes the
/// address of an instantiated weak template for non-null.
void require_builder(void (*builder)(), const NodeType& type);

/// A struct with `void describe(auto& f)`.
template <class T>
concept Described = requires(T& t, Fields& f) { t.describe(f); };

namespace detail {

template <class C>
C describing_class(void (C::*)(Fields&));

/// The class whose `describe` a call on T runs: a base of T where T has none of its own.
template <class T>
auto describer() {
  if constexpr (requires { describing_class(&T::template describe<Fields>); }) {
    return std::type_identity<decltype(describing_class(&T::template describe<Fields>))>{};
  } else {
    return std::type_identity<decltype(describing_class(&T::describe))>{};
  }
}

template <class T>
void describe_node(void* node, Fields& fields);

template <class T>
void* create_node() {
  return new T{};
}

template <class T>
void* clone_node(const void* node) {
  return new T(*static_cast<const T*>(node));
}

template <class T>
void destroy_node(void* node) {
  delete static_cast<T*>(node);
}

template <class T>
void assign_node(void* to, const void* from) {
  *static_cast<T*>(to) = *static_cast<const T*>(from);
}

template <class T>
ModulePtr build_node(const void* node);

template <class T>
consteval auto validate_hook() -> void (*)(const void*) {
  if constexpr (requires(const T& t) { t.validate(); }) {
    return [](const void* node) { static_cast<const T*>(node)->validate(); };
  } else {
    return nullptr;
  }
}

template <class T>
consteval auto validate_in_hook() -> void (*)(const void*, const TrainerConfig&) {
  if constexpr (requires(const T& t, const TrainerConfig& c) { t.validate(c); }) {
    return [](const void* node, const TrainerConfig& c) { static_cast<const T*>(node)->validate(c); };
  } else {
    return nullptr;
  }
}

}  // namespace detail

/// The constant of type T.
template <class T>
inline constexpr NodeType node_type{&typeid(T),
                                    &detail::shared_object,
                                    &detail::describe_node<T>,
                                    &detail::create_node<T>,
                                    &detail::clone_node<T>,
                                    &detail::destroy_node<T>,
                                    &detail::assign_node<T>,
                                    &detail::build_node<T>,
                                    detail::validate_hook<T>(),
                                    detail::validate_in_hook<T>()};

namespace detail {

/// Whether other files can define build<T>: types of functions and unnamed namespaces have no name there.
template <class T>
consteval bool has_linkage() {
  const std::string_view name = __PRETTY_FUNCTION__;
  return name.find("{anonymous}") == name.npos && name.find("(anonymous") == name.npos &&
         name.find(")::") == name.npos;
}

}  // namespace detail

// Bodies of function templates are instantiated at the end of a file, after the specialisations of build<> in
// it.
template <class T>
ModulePtr detail::build_node(const void* node) {
  if constexpr (has_linkage<T>()) {
    ModulePtr (*make)(const T&) = &titan::build<T>;
    require_builder(reinterpret_cast<void (*)()>(make), node_type<T>);
    return make(*static_cast<const T*>(node));
  } else {
    require_builder(nullptr, node_type<T>);
    return nullptr;
  }
}

/// An owned struct of any type.
class AnyNode {
 public:
  AnyNode() = default;
  /// A new struct with the defaults of `type`.
  explicit AnyNode(const NodeType& type) : node_{type.create(), &type} {}
  template <Described T>
  explicit AnyNode(T value) : node_{new T(std::move(value)), &node_type<T>} {}
  AnyNode(AnyNode&& other) noexcept : node_(std::exchange(other.node_, {})) {}
  AnyNode& operator=(AnyNode&& other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~AnyNode() {
    if (node_) node_.type->destroy(node_.data);
  }

  Node node() const { return node_; }

 private:
  Node node_;
};

/// A view of `config`. The view of a const struct must only be read.
template <Described T>
Node node_of(const T& config) {
  return {const_cast<T*>(&config), &node_type<T>};
}

/// The C inside `node`, or null when `node` is neither a C nor derived from it.
template <class C>
C* as(Node node) {
  return static_cast<C*>(upcast(node, node_type<C>));
}

}  // namespace titan
