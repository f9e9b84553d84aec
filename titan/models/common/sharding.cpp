#include "titan/models/common/sharding.h"

#include <array>
#include <set>
#include <string_view>

#include "titan/base/error.h"

namespace titan {

namespace {

/// How a module takes part.
enum class Role {
  columns,     ///< a Linear (or a table) cut by output (by vocabulary)
  rows,        ///< a Linear cut by input: its output is a summand
  token_norm,  ///< sees whole tokens, all of them or this rank's chunk
  head_norm,   ///< sees this rank's heads only
  block,       ///< attention or feed-forward: enters and leaves the part that is cut
};

struct PlacementRule {
  std::string_view module;
  Role role;
};

constexpr std::array kDecoderRules = {PlacementRule{"tok_embeddings", Role::columns},
                                      PlacementRule{"norm", Role::token_norm},
                                      PlacementRule{"lm_head", Role::columns}};

constexpr std::array kLayerRules = {PlacementRule{"attention_norm", Role::token_norm},
                                    PlacementRule{"attention", Role::block},
                                    PlacementRule{"attention.qkv_linear.wq", Role::columns},
                                    PlacementRule{"attention.qkv_linear.wk", Role::columns},
                                    PlacementRule{"attention.qkv_linear.wv", Role::columns},
                                    PlacementRule{"attention.wo", Role::rows},
                                    PlacementRule{"attention.q_norm", Role::head_norm},
                                    PlacementRule{"attention.k_norm", Role::head_norm},
                                    PlacementRule{"ffn_norm", Role::token_norm},
                                    PlacementRule{"feed_forward", Role::block},
                                    PlacementRule{"feed_forward.w1", Role::columns},
                                    PlacementRule{"feed_forward.w3", Role::columns},
                                    PlacementRule{"feed_forward.w2", Role::rows}};

struct Placements {
  TensorPlacement weight, bias;
};

Placements placements(Role role, bool sequence_parallel) {
  switch (role) {
    case Role::columns:
      return {{.dim = 0}, {.dim = 0}};
    case Role::rows:
      // The bias is added by one rank, the others have no gradient.
      return {{.dim = 1}, {.partial_gradient = true}};
    case Role::token_norm:
      return {{.partial_gradient = sequence_parallel}, {.partial_gradient = sequence_parallel}};
    case Role::head_norm:
      return {{.partial_gradient = true}, {.partial_gradient = true}};
    case Role::block:
      break;
  }
  return {};
}

/// Adds a module's entry to the spec, if the model has the module.
void add_module(ShardingSpec& spec, const Module& model, const std::string& name, Role role,
                bool sequence_parallel) {
  const Module* module = model.find(name);
  if (!module) return;
  ModuleSharding sharding{.module = name};
  const auto [weight, bias] = placements(role, sequence_parallel);
  for (const auto& own : module->own_parameters()) {
    if (role == Role::block) continue;
    if (own.name == "weight") sharding.parameters.emplace_back(own.name, weight);
    if (own.name == "bias") sharding.parameters.emplace_back(own.name, bias);
  }
  const Layout between = sequence_parallel ? Layout::sequence : Layout::replicate;
  const LayoutChange gather{between, Layout::replicate}, sum{Layout::partial, between};
  if (role == Role::block) sharding.input = gather, sharding.output = sum;
  if (name == "tok_embeddings") sharding.output = sum;
  if (name == "norm") sharding.output = gather;  // into the head, which may be the token table
  spec.push_back(std::move(sharding));
}

void require_all_placed(const Module& model, const ShardingSpec& spec) {
  std::set<std::string> placed;
  for (const ModuleSharding& sharding : spec) {
    for (const auto& [name, placement] : sharding.parameters) placed.insert(sharding.module + "." + name);
  }
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (placed.contains(name)) continue;
    throw ConfigError(
        "parallelism.tensor_parallel_degree: the parameter {} is not one that tensor parallelism knows how "
        "to "
        "cut; set the degree to 1 or take the module that has it out of the model",
        name);
  }
}

}  // namespace

ShardingSpec decoder_sharding(const Module& decoder, bool sequence_parallel) {
  ShardingSpec spec;
  for (const auto& [module, role] : kDecoderRules) {
    add_module(spec, decoder, std::string(module), role, sequence_parallel);
  }
  for (const auto& child : decoder.children()) {
    if (!child.name.starts_with("layers.")) continue;
    for (const auto& [module, role] : kLayerRules) {
      add_module(spec, decoder, format("{}.{}", child.name, module), role, sequence_parallel);
    }
  }
  require_all_placed(decoder, spec);
  return spec;
}

}  // namespace titan
