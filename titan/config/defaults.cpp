#include "titan/config/defaults.h"

#include "titan/base/strings.h"
#include "titan/config/dump.h"
#include "titan/config/text.h"
#include "titan/config/walk.h"

namespace titan {

namespace {

class Comparison {
 public:
  std::vector<Difference> found;

  void compare(Node node, Node defaults, const std::string& fqn) {
    const Fields fields = fields_of(node), default_fields = fields_of(defaults);
    for (size_t i = 0; i < fields.list().size(); ++i) {
      compare_field(fields.list()[i], default_fields.list()[i], join_fqn(fqn, fields.list()[i].name));
    }
  }

 private:
  void compare_field(const Field& field, const Field& defaults, const std::string& fqn) {
    switch (field.type->kind) {
      case Kind::node:
        return compare({field.member, field.type->type}, {defaults.member, field.type->type}, fqn);
      case Kind::slot:
        return compare_slot(field, static_cast<Slot*>(field.member)->node(),
                            static_cast<Slot*>(defaults.member)->node(), fqn);
      case Kind::nodes:
      case Kind::slots:
        return compare_list(field, defaults, fqn);
      default:
        break;
    }
    const std::string text = to_text(*field.type, field.member), was = to_text(*field.type, defaults.member);
    if (text != was) found.push_back({fqn, was, text, field});
  }

  void compare_slot(const Field& field, Node node, Node defaults, const std::string& fqn) {
    if (node && defaults && same_type(*node.type, *defaults.type)) return compare(node, defaults, fqn);
    if (!node && !defaults) return;
    found.push_back({fqn, name_of(defaults), name_of(node), field});
    if (!node) return;
    const AnyNode fresh(*node.type);
    compare(node, fresh.node(), fqn);
  }

  void compare_list(const Field& field, const Field& defaults, const std::string& fqn) {
    const size_t size = field.type->size(field.member), default_size = defaults.type->size(defaults.member);
    if (size != default_size) {
      found.push_back({fqn, format("{} elements", default_size), format("{} elements", size), field});
    }
    for (size_t first = 0; first < size;) {
      const Node node = element(field, first);
      size_t end = first + 1;
      if (node) {
        const Json json = to_json(node);
        while (end < size && element(field, end) && to_json(element(field, end)) == json) ++end;
        const std::string name =
            end == first + 1 ? std::to_string(first) : format("[{}..{}]", first, end - 1);
        const AnyNode fresh(*node.type);
        // An element is compared with its namesake in the default's list, or with its type's defaults.
        const Node was = first < default_size && end == first + 1 ? element(defaults, first) : Node{};
        const bool comparable = was && same_type(*was.type, *node.type);
        compare(node, comparable ? was : fresh.node(), join_fqn(fqn, name));
      }
      first = end;
    }
  }

  static Node element(const Field& list, size_t index) {
    void* at = list.type->at(list.member, index);
    return list.type->kind == Kind::nodes ? Node{at, list.type->type} : static_cast<Slot*>(at)->node();
  }

  static std::string name_of(Node node) { return node ? type_name(*node.type) : "none"; }
};

}  // namespace

std::vector<Difference> differences_from_defaults(Node root) {
  const AnyNode defaults(*root.type);
  Comparison comparison;
  comparison.compare(root, defaults.node(), "");
  return std::move(comparison.found);
}

}  // namespace titan
