#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "titan/base/error.h"
#include "titan/config/fields.h"
#include "titan/nn/parameter.h"

namespace titan {

/// Functions around a piece of a model's forward, for mechanisms that the model does not know (fully sharded
/// weights). Empty: nothing happens.
struct ForwardStage {
  /// Called before the forward of the piece.
  std::function<void()> before;
  /// Takes the piece's output and gives what takes its place (an identity function with a backward).
  std::function<at::Tensor(const at::Tensor&)> after;

  template <class Forward>
  at::Tensor run(Forward&& forward) const {
    if (before) before();
    at::Tensor output = forward();
    return after ? after(output) : output;
  }
};

/// Moves an activation from one layout over the ranks to another; it has the matching backward.
using Redistribution = std::function<at::Tensor(const at::Tensor&)>;

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
  Module* find(std::string_view name);

  /// What surrounds this module's forward; whoever calls the forward runs it inside.
  ForwardStage stage;

  /// How the input and the output change their layout under tensor parallelism. The caller of the forward
  /// applies them, so that a user's own module in this place needs to know nothing of it.
  Redistribution input_redistribution, output_redistribution;
  at::Tensor enter(const at::Tensor& x) const { return input_redistribution ? input_redistribution(x) : x; }
  at::Tensor leave(const at::Tensor& y) const { return output_redistribution ? output_redistribution(y) : y; }

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

/// Gives every parameter its shard, in `dtype` on `device`, with undefined content; where the shard covers
/// all of the value, the value too.
void allocate(Module& model, at::ScalarType dtype, at::Device device);

/// Fills the shards of allocated parameters from `seed` and their names: any division gives the same numbers.
void fill(Module& model, uint64_t seed);

/// allocate() and fill(); on the meta device, where nothing can be filled, allocate() alone.
void materialize(Module& model, at::ScalarType dtype, at::Device device, uint64_t seed);

}  // namespace titan
