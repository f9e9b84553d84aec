#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "titan/base/error.h"
#include "titan/config/fields.h"
#include "titan/nn/parameter.h"

namespace titan {

/// A node of a model: owns parameters and child modules under names. Forward functions belong to the derived
/// classes and take what they need; a Module only knows its tree.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  struct Child {
    std::string name;
    ModulePtr module;
  };
  struct NamedParameter {
    std::string name;
    Parameter* parameter;
  };

  const std::vector<Child>& children() const { return children_; }
  const std::vector<NamedParameter>& own_parameters() const { return parameters_; }

  /// Every parameter below this module with its fully qualified name, in the order of registration.
  std::vector<NamedParameter> named_parameters() const;

  /// The module below this one with that fully qualified name ("" is this one), or nullptr.
  const Module* find(std::string_view name) const;

 protected:
  /// Registers a member as a parameter and describes it.
  void add_parameter(std::string name, Parameter& member, std::vector<int64_t> shape, Init init);

  /// Builds what the slot describes and registers it; an empty slot gives nullptr. Throws ConfigError when
  /// the config in the slot builds something that is no T.
  template <class T, class Config>
  std::shared_ptr<T> add_child(const std::string& name, const Poly<Config>& slot) {
    if (!slot) return nullptr;
    auto child = std::dynamic_pointer_cast<T>(slot.build());
    if (!child) refuse_child(name, slot.node());
    children_.push_back({name, child});
    return child;
  }

 private:
  [[noreturn]] static void refuse_child(const std::string& name, Node node);

  std::vector<Child> children_;
  std::vector<NamedParameter> parameters_;
};

/// Gives every parameter its tensor, in `dtype` on `device`, with undefined content.
void allocate(Module& model, at::ScalarType dtype, at::Device device);

/// Fills allocated parameters from `seed` and their names.
void fill(Module& model, uint64_t seed);

/// allocate() and fill(); on the meta device, where nothing can be filled, allocate() alone.
void materialize(Module& model, at::ScalarType dtype, at::Device device, uint64_t seed);

}  // namespace titan
