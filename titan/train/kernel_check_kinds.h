#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "titan/config/override.h"
#include "titan/models/common/sequence_context.h"
#include "titan/nn/module.h"

// B batch, T tokens.
namespace titan {

/// A tensor that a kind of module is given.
struct CheckInput {
  std::string name;
  std::vector<int64_t> dims;  ///< after B and T
  int64_t num_ids = 0;        ///< not 0: integers below it, which have no gradient

  bool operator==(const CheckInput&) const = default;
};

/// The arguments of one call.
struct CheckArguments {
  std::vector<at::Tensor> tensors;  ///< one per input, [B, T, dims...]
  LayerContext context;             ///< of a kind that sees positions
  at::ScalarType dtype = at::kFloat;
};

/// How a kind of module is called in a model.
struct CheckKind {
  std::string name;
  std::vector<CheckInput> inputs;
  std::vector<std::string> outputs;
  std::function<std::vector<at::Tensor>(const Module&, const CheckArguments&)> call;
  /// What a module makes of positions [B, T]; none: it sees no positions.
  std::function<LayerContext(const Module&, const at::Tensor& positions_BT)> context = {};
  /// Of rotary embeddings, whose results are rotations of the inputs of their numbers: the form of cache.
  std::function<std::string_view(const Module&)> cache_form = {};
};

/// What an override puts in place of what, in all nodes where it comes to the same.
struct Replacement {
  std::string override_name;
  Node before, after;
  CheckKind kind;  ///< of what is replaced
  std::vector<std::string> fqns;
};

/// The distinct replacements that `claims`, nodes of `before`, have become in `after`: the same override and
/// types, equal inputs, and equal fields but for how weights begin. ConfigError for a node that is no module,
/// or one whose call is not known, naming those that can be checked.
std::vector<Replacement> distinct_replacements(Node before, Node after,
                                               const std::vector<OverrideClaim>& claims);

}  // namespace titan
