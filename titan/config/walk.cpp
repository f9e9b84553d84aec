#include "titan/config/walk.h"

namespace titan {

namespace {

void walk_from(const Place& place, const std::function<void(const Place&)>& visit) {
  visit(place);
  const Node node =
      place.slot != nullptr ? place.slot->node() : place.node;  // visit may have filled the slot anew
  if (!node) return;
  const Fields fields = fields_of(node);
  for (const Field& field : fields.list()) {
    const MemberType& type = *field.type;
    const std::string fqn = join_fqn(place.fqn, field.name);
    if (type.kind == Kind::node) {
      walk_from({fqn, {field.member, type.type}}, visit);
    } else if (type.kind == Kind::slot) {
      auto* slot = static_cast<Slot*>(field.member);
      if (*slot) walk_from({fqn, slot->node(), slot}, visit);
    } else if (type.kind == Kind::nodes || type.kind == Kind::slots) {
      for (size_t i = 0; i < type.size(field.member); ++i) {
        void* element = type.at(field.member, i);
        const std::string element_fqn = join_fqn(fqn, std::to_string(i));
        if (type.kind == Kind::nodes) {
          walk_from({element_fqn, {element, type.type}}, visit);
        } else if (auto* slot = static_cast<Slot*>(element); *slot) {
          walk_from({element_fqn, slot->node(), slot}, visit);
        }
      }
    }
  }
}

}  // namespace

void walk(Node root, const std::function<void(const Place&)>& visit) {
  if (root) walk_from({"", root}, visit);
}

std::vector<Place> places_of(Node root) {
  std::vector<Place> places;
  walk(root, [&](const Place& place) { places.push_back(place); });
  return places;
}

void* match_type(Node node, const NodeType& type, Match match) {
  if (match == Match::derived) return upcast(node, type);
  return same_type(*node.type, type) ? node.data : nullptr;
}

std::string join_fqn(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string(name) : std::string(parent) + "." + std::string(name);
}

}  // namespace titan
