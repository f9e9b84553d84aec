#include "titan/config/dump.h"

#include <algorithm>

#include "titan/base/strings.h"
#include "titan/config/defaults.h"
#include "titan/config/locate.h"
#include "titan/config/text.h"
#include "titan/config/walk.h"

namespace titan {

namespace {

enum class Typed { no, yes };

Json node_json(Node node, Typed typed);

Json list_json(const Field& field) {
  Json list = Json::array();
  for (size_t i = 0; i < field.type->size(field.member); ++i) {
    void* element = field.type->at(field.member, i);
    if (field.type->kind == Kind::nodes) {
      list.push_back(node_json({element, field.type->type}, Typed::no));
    } else {
      list.push_back(node_json(static_cast<Slot*>(element)->node(), Typed::yes));
    }
  }
  return list;
}

Json field_json(const Field& field) {
  switch (field.type->kind) {
    case Kind::node:
      return node_json({field.member, field.type->type}, Typed::no);
    case Kind::slot:
      return node_json(static_cast<Slot*>(field.member)->node(), Typed::yes);
    case Kind::nodes:
    case Kind::slots:
      return list_json(field);
    default:
      return to_json(*field.type, field.member);
  }
}

Json node_json(Node node, Typed typed) {
  if (!node) return {};
  Json object = Json::object();
  if (typed == Typed::yes) object.append_member("type", type_name(*node.type));
  const Fields fields = fields_of(node);
  for (const Field& field : fields.list()) object.append_member(field.name, field_json(field));
  return object;
}

/// Quotes texts that would be misread: empty ones and those with a line break or outer spaces.
std::string readable(const MemberType& type, const void* member) {
  const std::string text = to_text(type, member);
  const bool is_text =
      type.kind == Kind::text || (type.kind == Kind::optional && type.inner->kind == Kind::text);
  if (is_text && (text.empty() || trim(text) != text || text.find('\n') != text.npos))
    return Json(text).dump();
  return text;
}

class TreeText {
 public:
  std::string text;

  void add_fields(Node node, size_t depth) {
    const Fields fields = fields_of(node);
    for (const Field& field : fields.list()) add_field(field, depth);
  }

 private:
  void add_line(size_t depth, std::string_view name, std::string_view value) {
    text.append(2 * depth, ' ').append(name).append(value.empty() ? ":" : ": ").append(value).append("\n");
  }

  void add_section(std::string_view name, Node node, size_t depth, bool typed) {
    if (!node) return add_line(depth, name, "none");
    add_line(depth, name, typed ? type_name(*node.type) : "");
    add_fields(node, depth + 1);
  }

  void add_field(const Field& field, size_t depth) {
    switch (field.type->kind) {
      case Kind::node:
        return add_section(field.name, {field.member, field.type->type}, depth, false);
      case Kind::slot:
        return add_section(field.name, static_cast<Slot*>(field.member)->node(), depth, true);
      case Kind::nodes:
      case Kind::slots:
        return add_list(field, depth);
      default:
        return add_line(depth, field.name, readable(*field.type, field.member));
    }
  }

  void add_list(const Field& field, size_t depth) {
    const size_t size = field.type->size(field.member);
    if (size == 0) return add_line(depth, field.name, "[]");
    const Json elements = list_json(field);
    for (size_t first = 0; first < size;) {
      size_t end = first + 1;
      while (end < size && elements.at(end) == elements.at(first)) ++end;
      const std::string name = end == first + 1 ? format("{}.{}", field.name, first)
                                                : format("{}.[{}..{}]", field.name, first, end - 1);
      void* element = field.type->at(field.member, first);
      const bool is_slot = field.type->kind == Kind::slots;
      add_section(name, is_slot ? static_cast<Slot*>(element)->node() : Node{element, field.type->type},
                  depth, is_slot);
      first = end;
    }
  }
};

std::string status_note(Status status) {
  switch (status) {
    case Status::works:
      return "";
    case Status::refused:
      return " [not built yet]";
    case Status::no_meaning:
      return " [no effect here]";
  }
  return "";
}

std::string alternatives_line(const std::string& fqn, const Slot& slot, const MemberType& type) {
  std::string line;
  for (const Alternative& alternative : type.alternatives) {
    const bool chosen = slot && same_type(*slot.node().type, *alternative.type);
    line += format("  {}:{}{}  {}{}\n", fqn, alternative.name, chosen ? " (chosen)" : "", alternative.help,
                   status_note(alternative.status));
  }
  return line;
}

/// Sections first described where they begin, so that a reader sees the choice before its fields.
void add_help(Node node, const std::string& parent, std::string& text) {
  const Fields fields = fields_of(node);
  for (const Field& field : fields.list()) {
    const std::string fqn = join_fqn(parent, field.name);
    if (is_leaf(*field.type)) {
      text += format("  --{} {} ({})  {}{}\n", fqn, kind_name(*field.type),
                     readable(*field.type, field.member), field.help, status_note(field.status));
      continue;
    }
    for (const Located& place : locate(node, field.name)) {
      const bool is_list = field.type->size != nullptr;
      const size_t size = is_list ? field.type->size(field.member) : 0;
      if (parent.empty()) text += format("\n{}: {}{}\n", fqn, field.help, status_note(field.status));
      if (is_list && size > 1) text += format("  ({} has elements 0 to {}; .*. means each)\n", fqn, size - 1);
      if (place.type->kind == Kind::slot)
        text += alternatives_line(fqn, *static_cast<Slot*>(place.member), *place.type);
      if (place.section) add_help(place.section, fqn, text);
    }
    if (field.type->size == nullptr || field.type->size(field.member) == 0) continue;
    for (const Located& first : locate(node, std::string(field.name) + ".0")) {
      if (first.section) add_help(first.section, fqn + ".0", text);
    }
  }
}

}  // namespace

Json to_json(Node root) { return node_json(root, Typed::yes); }

std::string to_tree_text(Node root) {
  TreeText tree;
  tree.text = type_name(*root.type) + "\n";
  tree.add_fields(root, 1);
  return std::move(tree.text);
}

std::string diff_text(Node root) {
  std::string text;
  for (const Difference& difference : differences_from_defaults(root)) {
    text += format("{}: {} -> {}\n", difference.fqn, difference.default_text, difference.text);
  }
  return text;
}

std::string help_text(Node root) {
  std::string text;
  add_help(root, "", text);
  return text;
}

}  // namespace titan
