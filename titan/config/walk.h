#pragma once

#include <functional>
#include <string>
#include <type_traits>

#include "titan/config/fields.h"

namespace titan {

/// Which types a search finds: the type and all derived from it, or the very type only.
enum class Match { derived, exact };

/// One struct inside a tree.
struct Place {
  std::string fqn;  ///< `model_spec.model.layers.0.attention`; empty for the root
  Node node;
  Slot* slot = nullptr;  ///< the slot that holds the node, or null
};

/// Visits `root` and every struct inside it, parents first, list elements under their index. What `visit`
/// does to the struct at hand is seen by the visits below it.
void walk(Node root, const std::function<void(const Place&)>& visit);

/// The structs inside `root`, the root first, as they are now.
std::vector<Place> places_of(Node root);

/// `node` as a `type` when it is found by `match`, else null.
void* match_type(Node node, const NodeType& type, Match match);

/// "a.b" for "a" and "b"; a name stands alone at the root.
std::string join_fqn(std::string_view parent, std::string_view name);

/// Calls `fn(fqn, struct)` for every T inside `root`, with its fully qualified name.
template <Described T, class Root, class Fn>
  requires Described<std::remove_const_t<Root>>
void traverse(Root& root, Fn fn, Match match = Match::derived) {
  using Found = std::conditional_t<std::is_const_v<Root>, const T, T>;
  walk(node_of(root), [&](const Place& place) {
    if (void* found = match_type(place.node, node_type<T>, match)) fn(place.fqn, *static_cast<Found*>(found));
  });
}

}  // namespace titan
