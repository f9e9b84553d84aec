#include "titan/distributed/tensor_parallel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"

namespace titan {

namespace {

Parameter& named_parameter(const Module& module, const std::string& module_name, const std::string& name) {
  for (const auto& own : module.own_parameters()) {
    if (own.name == name) return *own.parameter;
  }
  throw ValueError("tensor parallel: the module {} has no parameter {}", module_name, name);
}

void place(Parameter& parameter, const std::string& name, TensorPlacement placement, const Group& group) {
  check(!parameter.shard.defined() && parameter.shard_block == Block::whole(parameter.shape),
        "tensor parallelism cuts weights first, before other axes and before they are allocated");
  parameter.tp = placement;
  if (!placement.dim) return;
  const int64_t dim = *placement.dim;
  if (dim < 0 || dim >= static_cast<int64_t>(parameter.shape.size())) {
    throw ValueError("tensor parallel: {} has {} dimensions; there is no dimension {} to cut", name,
                     parameter.shape.size(), dim);
  }
  const int64_t size = parameter.shape[static_cast<size_t>(dim)];
  if (chunk_of(size, group.size(), group.size() - 1).count == 0) {
    throw ValueError("tensor parallel: the {} entries of {} along dimension {} do not reach for {} ranks",
                     size, name, dim, group.size());
  }
  parameter.value_block = parameter.value_block.chunk(dim, group.size(), group.index());
  parameter.shard_block = parameter.value_block;
}

Redistribution redistribution(const std::optional<LayoutChange>& change, Group& group) {
  if (!change) return nullptr;
  return [change = *change, &group](const at::Tensor& x) { return redistribute(x, change, group); };
}

}  // namespace

void tensor_parallel(Module& model, const ShardingSpec& spec, Group& group) {
  for (const ModuleSharding& sharding : spec) {
    Module* module = model.find(sharding.module);
    if (!module) throw ValueError("tensor parallel: the model has no module {}", sharding.module);
    for (const auto& [name, placement] : sharding.parameters) {
      place(named_parameter(*module, sharding.module, name), sharding.module + "." + name, placement, group);
    }
    module->input_redistribution = redistribution(sharding.input, group);
    module->output_redistribution = redistribution(sharding.output, group);
  }
}

TensorAxis tensor_axis(Group& group) {
  const auto gather = [&group](const at::Tensor& part, int64_t rows) {
    const NoGrad no_grad;
    auto sizes = part.sizes().vec();
    sizes.at(0) = rows;
    at::Tensor whole = at::empty(sizes, part.options());
    if (!part.is_meta()) group.all_gather({whole}, {part}).wait();
    return whole;
  };
  return {group.size(), group.index(), gather};
}

// One buffer holds the gradients of all parameters, then for each how many ranks have one: a weight that no
// rank used stays without a gradient.
void sum_partial_gradients(std::span<const Module::NamedParameter> parameters, Group& tp) {
  const NoGrad no_grad;
  std::vector<const Parameter*> partial;
  int64_t elements = 0;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter->tp.partial_gradient || !parameter->trainable) continue;
    partial.push_back(parameter);
    elements += parameter->shard.numel();
  }
  if (partial.empty() || tp.size() == 1) return;
  const auto count = static_cast<int64_t>(partial.size());
  at::Tensor sums = at::zeros({elements + count}, partial[0]->shard.options().dtype(at::kFloat));
  const auto slice_of_each = [&](auto&& use) {
    int64_t begin = 0, number = elements;
    for (const Parameter* parameter : partial) {
      const int64_t size = parameter->shard.numel();
      use(*parameter, sums.narrow(0, begin, size).view(parameter->shard.sizes()), sums.select(0, number++));
      begin += size;
    }
  };
  slice_of_each([](const Parameter& parameter, const at::Tensor& slice, const at::Tensor& ranks) {
    if (!parameter.shard.grad().defined()) return;
    slice.copy_(parameter.shard.grad());
    ranks.fill_(1);
  });
  tp.all_reduce(sums).wait();
  slice_of_each([](const Parameter& parameter, const at::Tensor& slice, const at::Tensor& ranks) {
    if (parameter.shard.grad().defined()) {
      parameter.shard.grad().copy_(slice);
    } else if (ranks.item<float>() > 0) {
      parameter.shard.mutable_grad() = slice.to(parameter.shard.scalar_type(), false, /*copy=*/true);
    }
  });
}

}  // namespace titan
