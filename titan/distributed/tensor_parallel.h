#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "titan/distributed/group.h"
#include "titan/nn/module.h"

// B batch, T tokens of a row, D dim.
namespace titan {

/// How an activation [B, T, D] lies on the tensor-parallel axis.
enum class Layout {
  replicate,  ///< every rank holds all of it
  sequence,   ///< every rank holds its chunk of the tokens (dim 1)
  partial,    ///< every rank holds a summand of it
};

/// A change of layout. Forward and backward of each pair:
///   sequence -> replicate   all-gather            reduce-scatter
///   replicate -> replicate  nothing               all-reduce (each rank uses it for its own columns)
///   partial -> sequence     reduce-scatter        all-gather
///   partial -> replicate    all-reduce            nothing
struct LayoutChange {
  Layout from;
  Layout to;
};

/// How one module lies on the axis: its own parameters (by name, "weight"), its input and its output.
struct ModuleSharding {
  std::string module;  ///< fully qualified name
  std::vector<std::pair<std::string, TensorPlacement>> parameters = {};
  std::optional<LayoutChange> input = {};
  std::optional<LayoutChange> output = {};
};

/// A model's parallelism as data beside it.
using ShardingSpec = std::vector<ModuleSharding>;

/// Cuts the parameters that the spec names (value_block and shard_block; before allocate()) and hangs the
/// layout changes into the modules. Parameters that the spec does not name are replicated. ValueError naming
/// a module or parameter that the model does not have.
void tensor_parallel(Module& model, const ShardingSpec& spec, Group& group);

/// x in its new layout, with the backward of the table above. `sequence` needs T divisible by the group's
/// size.
at::Tensor redistribute(const at::Tensor& x, LayoutChange change, Group& group);

}  // namespace titan
