#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "titan/config/override.h"
#include "titan/nn/module.h"

// B batch, T tokens.
namespace titan {

/// What an override puts in place of what, in all nodes where it comes to the same.
struct Replacement {
  std::string override_name;
  Node before, after;
  std::vector<std::string> fqns;
  /// Of the attention that holds the node; 1 elsewhere.
  int64_t n_heads = 1, n_kv_heads = 1;
};

/// The distinct replacements that `claims`, nodes of `before`, have become in `after`: the same override and
/// types, and equal fields but for how weights begin.
std::vector<Replacement> distinct_replacements(Node before, Node after,
                                               const std::vector<OverrideClaim>& claims);

/// A tensor that a kind of module is given.
struct CheckInput {
  std::string name;
  std::vector<int64_t> dims;  ///< after B and T
  int64_t num_ids = 0;        ///< not 0: integers below it, which have no gradient
};

/// The arguments of one call.
struct CheckArguments {
  std::vector<at::Tensor> tensors;  ///< one per input, [B, T, dims...]
  at::Tensor positions_BT;
  /// A rotary cache of any numbers: the kernel reads each where it should.
  bool has_drawn_cache = false;
  at::ScalarType dtype = at::kFloat;
};

/// How a kind of module is called in a model.
struct CheckKind {
  std::string name;
  bool takes_positions = false;
  std::vector<CheckInput> inputs;
  std::vector<std::string> outputs;
  std::function<std::vector<at::Tensor>(const Module&, const CheckArguments&)> call;
  /// Whether both take one form of rotary cache; none: they take no cache.
  std::function<bool(const Module&, const Module&)> shares_cache = {};
  /// Each result is a rotation, as rotary positions do it, of the input of its number.
  bool is_rotation = false;
};

/// The kind of the module that is replaced. ConfigError naming those there are, when it is none of them.
CheckKind check_kind(const Replacement& replacement);

}  // namespace titan
