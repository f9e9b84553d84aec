#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "titan/distributed/group.h"
#include "titan/nn/module.h"
#include "titan/ops/tensor_axis.h"

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
/// layout changes into the modules, which borrow the group. Parameters that the spec does not name are
/// replicated. ValueError naming a module or parameter that the model does not have, or a dimension with too
/// few entries for the ranks.
void tensor_parallel(Module& model, const ShardingSpec& spec, Group& group);

/// x [B, T, D] in its new layout, with the backward of the table above; sums run in float32. ValueError when
/// T cannot be divided over the group's ranks, and for a pair that the table does not have.
at::Tensor redistribute(const at::Tensor& x, LayoutChange change, Group& group);

/// The group as operators see it. Borrows the group.
TensorAxis tensor_axis(Group& group);

/// Once per optimizer step, when all gradients of a rank are in its shards: sums over the axis the gradients
/// of weights whose placement says that each rank has only a part, by one all-reduce in the order given.
void sum_partial_gradients(std::span<const Module::NamedParameter> parameters, Group& tp);

}  // namespace titan
