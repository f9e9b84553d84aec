#include "titan/train/kernel_check_kinds.h"

#include <algorithm>
#include <regex>
#include <utility>

#include "titan/base/error.h"
#include "titan/config/dump.h"
#include "titan/config/walk.h"
#include "titan/models/common/attention.h"
#include "titan/models/common/feed_forward.h"
#include "titan/models/common/rope.h"
#include "titan/models/common/transformer_block.h"
#include "titan/nn/embedding.h"
#include "titan/nn/linear.h"
#include "titan/nn/rms_norm.h"

namespace titan {
namespace {

using at::Tensor;

/// Fields of a node as text, without how its weights begin.
std::string fields_text(Node node) {
  static const std::regex initial(R"re("(output_)?init_std":[^,}]*)re");
  return std::regex_replace(to_json(node).dump(), initial, "");
}

/// The node of that name, or null.
Node node_named(const std::vector<Place>& places, std::string_view fqn) {
  const auto found = std::ranges::find(places, fqn, &Place::fqn);
  return found == places.end() ? Node() : found->node;
}

bool is_same(const Replacement& a, const Replacement& b) {
  return a.override_name == b.override_name && same_type(*a.before.type, *b.before.type) &&
         same_type(*a.after.type, *b.after.type) && a.kind.inputs == b.kind.inputs &&
         fields_text(a.before) == fields_text(b.before) && fields_text(a.after) == fields_text(b.after);
}

template <class M>
const M& module_of_kind(const Module& module) {
  const auto* found = dynamic_cast<const M*>(&module);
  if (found == nullptr) {
    throw ValueError("the replacement builds a module of another kind than what it replaces");
  }
  return *found;
}

/// The attention that holds a node, or null.
const AttentionConfig* attention_around(const std::vector<Place>& places, std::string_view fqn) {
  const size_t dot = fqn.rfind('.');
  const Node parent = dot == fqn.npos ? Node() : node_named(places, fqn.substr(0, dot));
  return parent ? as<AttentionConfig>(parent) : nullptr;
}

CheckKind rope_kind(const RoPEConfig& config, const AttentionConfig* around) {
  const int64_t n_heads = around ? around->n_heads : 1, n_kv_heads = around ? around->n_kv_heads : 1;
  return {"RoPE",
          {{"query", {n_heads, config.dim}}, {"key", {n_kv_heads, config.dim}}},
          {"query", "key"},
          [](const Module& module, const CheckArguments& given) {
            const auto [query, key] = module_of_kind<RoPE>(module).apply_rotary_emb(
                given.tensors[0], given.tensors[1], given.context.rope_cache);
            return std::vector{query, key};
          },
          [](const Module& module, const Tensor& positions_BT) {
            return LayerContext{module_of_kind<RoPE>(module).rope_cache(positions_BT), {}};
          },
          [](const Module& module) { return module_of_kind<RoPE>(module).cache_form(); }};
}

CheckKind norm_kind(const RMSNormConfig& config, const AttentionConfig* around, std::string_view fqn) {
  std::vector<int64_t> dims = {config.normalized_shape};
  if (around) dims.insert(dims.begin(), fqn.ends_with(".k_norm") ? around->n_kv_heads : around->n_heads);
  return {"RMSNorm", {{"x", dims}}, {"y"}, [](const Module& module, const CheckArguments& given) {
            return std::vector{module_of_kind<RMSNorm>(module).forward(given.tensors[0])};
          }};
}

CheckKind qkv_kind(int64_t dim) {
  return {"QKVLinear",
          {{"x", {dim}}},
          {"query", "key", "value"},
          [](const Module& module, const CheckArguments& given) {
            const auto& qkv = module_of_kind<QKVLinear>(module);
            const Tensor& x = given.tensors[0];
            return std::vector{qkv.wq->forward(x), qkv.wk->forward(x), qkv.wv->forward(x)};
          }};
}

LayerContext context_of(const Attention& attention, const Tensor& positions_BT) {
  return SequenceContext(positions_BT).layer(attention.rope(), attention.mask());
}

CheckKind attention_kind(int64_t dim) {
  return {"Attention",
          {{"x", {dim}}},
          {"y"},
          [](const Module& module, const CheckArguments& given) {
            const auto& attention = module_of_kind<Attention>(module);
            const Heads heads = attention.project(given.tensors[0], given.context);
            return std::vector{attention.output(attention.attend(heads, given.context, nullptr))};
          },
          [](const Module& module, const Tensor& positions_BT) {
            return context_of(module_of_kind<Attention>(module), positions_BT);
          }};
}

CheckKind block_kind(int64_t dim) {
  return {"TransformerBlock",
          {{"x", {dim}}},
          {"y"},
          [](const Module& module, const CheckArguments& given) {
            const auto& block = module_of_kind<TransformerBlock>(module);
            return std::vector{block.forward(given.tensors[0], given.context, Recompute::none)};
          },
          [](const Module& module, const Tensor& positions_BT) {
            return context_of(module_of_kind<TransformerBlock>(module).attention(), positions_BT);
          }};
}

CheckKind feed_forward_kind(int64_t dim) {
  return {"FeedForward", {{"x", {dim}}}, {"y"}, [](const Module& module, const CheckArguments& given) {
            const auto& feed_forward = module_of_kind<FeedForward>(module);
            return std::vector{feed_forward.output(feed_forward.hidden(given.tensors[0]))};
          }};
}

CheckKind linear_kind(const LinearConfig& config) {
  return {
      "Linear", {{"x", {config.in_features}}}, {"y"}, [](const Module& module, const CheckArguments& given) {
        return std::vector{module_of_kind<Linear>(module).forward(given.tensors[0])};
      }};
}

CheckKind embedding_kind(const EmbeddingConfig& config) {
  return {"Embedding",
          {{"ids", {}, config.num_embeddings}},
          {"y"},
          [](const Module& module, const CheckArguments& given) {
            return std::vector{module_of_kind<Embedding>(module).forward(given.tensors[0], given.dtype)};
          }};
}

/// The kind of a node that an override claims.
CheckKind check_kind(const OverrideClaim& claim, const std::vector<Place>& places) {
  const auto& [fqn, node, slot] = claim.place;
  if (const auto* rope = as<RoPEConfig>(node)) return rope_kind(*rope, attention_around(places, fqn));
  if (const auto* norm = as<RMSNormConfig>(node)) return norm_kind(*norm, attention_around(places, fqn), fqn);
  if (const auto* qkv = as<QKVLinearConfig>(node)) return qkv_kind(qkv->wq->in_features);
  if (const auto* attention = as<AttentionConfig>(node))
    return attention_kind(attention->qkv_linear->wq->in_features);
  if (const auto* feed_forward = as<FeedForwardConfig>(node))
    return feed_forward_kind(feed_forward->w1->in_features);
  if (const auto* block = as<TransformerBlockConfig>(node))
    return block_kind(block->attention->qkv_linear->wq->in_features);
  if (const auto* linear = as<LinearConfig>(node)) return linear_kind(*linear);
  if (const auto* embedding = as<EmbeddingConfig>(node)) return embedding_kind(*embedding);
  throw ConfigError(
      "titan kernel check: override '{}' replaces {}, a {}, which is not checked: RoPE, RMSNorm, QKVLinear, "
      "Attention, FeedForward, TransformerBlock, Linear and Embedding are. Name the overrides to check one "
      "by one: --override.imports MODULE.FUNCTION",
      claim.by->name, fqn, type_name(*node.type));
}

}  // namespace

std::vector<Replacement> distinct_replacements(Node before, Node after,
                                               const std::vector<OverrideClaim>& claims) {
  const std::vector<Place> old_places = places_of(before), new_places = places_of(after);
  std::vector<Replacement> distinct;
  for (const OverrideClaim& claim : claims) {
    const std::string& fqn = claim.place.fqn;
    const Node now = node_named(new_places, fqn);
    check(bool(now), "a replaced node has a place in the tree");
    Replacement one{claim.by->name, claim.place.node, now, check_kind(claim, old_places), {fqn}};
    const auto known = std::ranges::find_if(distinct, [&](const Replacement& r) { return is_same(r, one); });
    if (known == distinct.end()) {
      distinct.push_back(std::move(one));
    } else {
      known->fqns.push_back(fqn);
    }
  }
  return distinct;
}

}  // namespace titan
