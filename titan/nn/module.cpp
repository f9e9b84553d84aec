#include "titan/nn/module.h"

#include <ATen/ops/empty.h>

#include "titan/ops/autograd.h"

namespace titan {

namespace {

void collect(const Module& module, const std::string& prefix, std::vector<Module::NamedParameter>& found) {
  for (const auto& [name, parameter] : module.own_parameters()) found.push_back({prefix + name, parameter});
  for (const auto& [name, child] : module.children()) collect(*child, prefix + name + ".", found);
}

void allocate_parameter(Parameter& parameter, at::ScalarType dtype, at::Device device) {
  parameter.shard = at::empty(parameter.shard_block.shape, at::TensorOptions().dtype(dtype).device(device));
  parameter.shard.set_requires_grad(parameter.trainable);
  if (parameter.shard_block == parameter.value_block) parameter.value = parameter.shard;
}

}  // namespace

std::vector<Module::NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> found;
  collect(*this, "", found);
  return found;
}

const Module* Module::find(std::string_view name) const {
  if (name.empty()) return this;
  for (const Child& child : children_) {
    if (name == child.name) return child.module.get();
    // Child names may hold dots ("layers.0"), so the longest match decides, not the first dot.
    if (name.starts_with(child.name) && name[child.name.size()] == '.') {
      if (const Module* found = child.module->find(name.substr(child.name.size() + 1))) return found;
    }
  }
  return nullptr;
}

Module* Module::find(std::string_view name) {
  return const_cast<Module*>(static_cast<const Module*>(this)->find(name));
}

void Module::add_parameter(std::string name, Parameter& member, std::vector<int64_t> shape, Init init) {
  member.shape = std::move(shape);
  member.value_block = member.shard_block = Block::whole(member.shape);
  member.init = init;
  parameters_.push_back({std::move(name), &member});
}

void Module::refuse_child(const std::string& name, Node node) {
  throw ConfigError("{}: {} builds a module of another kind than this place holds", name,
                    type_name(*node.type));
}

void allocate(Module& model, at::ScalarType dtype, at::Device device) {
  for (const auto& [name, parameter] : model.named_parameters())
    allocate_parameter(*parameter, dtype, device);
}

void fill(Module& model, uint64_t seed) {
  const NoGrad no_grad;
  for (const auto& [name, parameter] : model.named_parameters()) {
    fill_block(parameter->shard, parameter->init, parameter->shape, parameter->shard_block, seed, name);
  }
}

void materialize(Module& model, at::ScalarType dtype, at::Device device, uint64_t seed) {
  allocate(model, dtype, device);
  if (!device.is_meta()) fill(model, seed);
}

}  // namespace titan
