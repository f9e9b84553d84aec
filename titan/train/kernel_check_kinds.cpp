#include "titan/train/kernel_check_kinds.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <regex>

#include "titan/base/error.h"
#include "titan/config/dump.h"
#include "titan/config/walk.h"
#include "titan/models/common/attention.h"
#include "titan/models/common/feed_forward.h"
#include "titan/models/common/rope.h"
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

const Place& place_named(const std::vector<Place>& places, const std::string& fqn) {
  const auto found = std::ranges::find(places, fqn, &Place::fqn);
  check(found != places.end(), "a replaced node has a place in the tree");
  return *found;
}

std::string parent_of(const std::string& fqn) {
  const size_t dot = fqn.rfind('.');
  return dot == fqn.npos ? "" : fqn.substr(0, dot);
}

bool is_same(const Replacement& a, const Replacement& b) {
  return a.override_name == b.override_name && same_type(*a.before.type, *b.before.type) &&
         same_type(*a.after.type, *b.after.type) && a.n_heads == b.n_heads && a.n_kv_heads == b.n_kv_heads &&
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

/// Both halves of a real cache hold the same numbers; those of a drawn one do not.
Tensor checked_cache(const RoPE& rope, const CheckArguments& given) {
  const Tensor cache = rope.rope_cache(given.positions_BT);
  if (!given.has_drawn_cache) return cache;
  return at::randn(cache.sizes(), at::detail::createCPUGenerator(cache.numel()));
}

CheckKind rope_kind(const RoPEConfig& config, const Replacement& where) {
  return {"RoPE",
          true,
          {{"query", {where.n_heads, config.dim}}, {"key", {where.n_kv_heads, config.dim}}},
          {"query", "key"},
          [](const Module& module, const CheckArguments& given) {
            const auto& rope = module_of_kind<RoPE>(module);
            const Tensor cache = checked_cache(rope, given);
            const auto [query, key] = rope.apply_rotary_emb(given.tensors[0], given.tensors[1], cache);
            return std::vector{query, key};
          },
          [](const Module& a, const Module& b) {
            return module_of_kind<RoPE>(a).cache_form() == module_of_kind<RoPE>(b).cache_form();
          },
          /*is_rotation=*/true};
}

CheckKind norm_kind(const RMSNormConfig& config, const Replacement& where) {
  std::vector<int64_t> dims = {config.normalized_shape};
  if (where.fqns.front().ends_with(".q_norm")) dims.insert(dims.begin(), where.n_heads);
  if (where.fqns.front().ends_with(".k_norm")) dims.insert(dims.begin(), where.n_kv_heads);
  return {"RMSNorm", false, {{"x", dims}}, {"y"}, [](const Module& module, const CheckArguments& given) {
            return std::vector{module_of_kind<RMSNorm>(module).forward(given.tensors[0])};
          }};
}

CheckKind attention_kind(int64_t dim) {
  return {"Attention", true, {{"x", {dim}}}, {"y"}, [](const Module& module, const CheckArguments& given) {
            const auto& attention = module_of_kind<Attention>(module);
            SequenceContext sequence(given.positions_BT);
            const LayerContext context = sequence.layer(attention.rope(), attention.mask());
            const Heads heads = attention.project(given.tensors[0], context);
            return std::vector{attention.output(attention.attend(heads, context, nullptr))};
          }};
}

CheckKind feed_forward_kind(int64_t dim) {
  return {"FeedForward", false, {{"x", {dim}}}, {"y"}, [](const Module& module, const CheckArguments& given) {
            const auto& feed_forward = module_of_kind<FeedForward>(module);
            return std::vector{feed_forward.output(feed_forward.hidden(given.tensors[0]))};
          }};
}

CheckKind linear_kind(const LinearConfig& config) {
  return {"Linear",
          false,
          {{"x", {config.in_features}}},
          {"y"},
          [](const Module& module, const CheckArguments& given) {
            return std::vector{module_of_kind<Linear>(module).forward(given.tensors[0])};
          }};
}

CheckKind embedding_kind(const EmbeddingConfig& config) {
  return {"Embedding",
          false,
          {{"ids", {}, config.num_embeddings}},
          {"y"},
          [](const Module& module, const CheckArguments& given) {
            return std::vector{module_of_kind<Embedding>(module).forward(given.tensors[0], given.dtype)};
          }};
}

}  // namespace

std::vector<Replacement> distinct_replacements(Node before, Node after,
                                               const std::vector<OverrideClaim>& claims) {
  const std::vector<Place> old_places = places_of(before), new_places = places_of(after);
  std::vector<Replacement> distinct;
  for (const OverrideClaim& claim : claims) {
    const std::string& fqn = claim.place.fqn;
    Replacement one{claim.by->name, claim.place.node, place_named(new_places, fqn).node, {fqn}};
    if (const auto* around = as<AttentionConfig>(place_named(old_places, parent_of(fqn)).node)) {
      one.n_heads = around->n_heads;
      one.n_kv_heads = around->n_kv_heads;
    }
    const auto known = std::ranges::find_if(distinct, [&](const Replacement& r) { return is_same(r, one); });
    if (known == distinct.end()) {
      distinct.push_back(std::move(one));
    } else {
      known->fqns.push_back(fqn);
    }
  }
  return distinct;
}

CheckKind check_kind(const Replacement& replacement) {
  const Node node = replacement.before;
  if (const auto* rope = as<RoPEConfig>(node)) return rope_kind(*rope, replacement);
  if (const auto* norm = as<RMSNormConfig>(node)) return norm_kind(*norm, replacement);
  if (const auto* attention = as<AttentionConfig>(node)) {
    return attention_kind(attention->qkv_linear->wq->in_features);
  }
  if (const auto* feed_forward = as<FeedForwardConfig>(node)) {
    return feed_forward_kind(feed_forward->w1->in_features);
  }
  if (const auto* linear = as<LinearConfig>(node)) return linear_kind(*linear);
  if (const auto* embedding = as<EmbeddingConfig>(node)) return embedding_kind(*embedding);
  throw ConfigError(
      "titan kernel check: override '{}' replaces a {} ({}), and how such a module is called is not known "
      "here; known are RoPE, RMSNorm, Attention, FeedForward, Linear and Embedding",
      replacement.override_name, type_name(*node.type), replacement.fqns.front());
}

}  // namespace titan
