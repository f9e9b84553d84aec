#include "titan/config/locate.h"

#include <algorithm>
#include <functional>
#include <span>

#include "titan/base/strings.h"
#include "titan/config/text.h"
#include "titan/config/walk.h"

namespace titan {

namespace {

Located place_of(const std::string& fqn, const Field& field) {
  Located found{fqn, field.help, field.status, field.type, field.member, {}};
  if (field.type->kind == Kind::node) found.section = {field.member, field.type->type};
  if (field.type->kind == Kind::slot) found.section = static_cast<Slot*>(field.member)->node();
  return found;
}

bool is_list(const MemberType& type) { return type.kind == Kind::nodes || type.kind == Kind::slots; }

Located element_of(const Located& list, size_t index) {
  Located found = list;
  found.fqn = join_fqn(list.fqn, std::to_string(index));
  found.member = list.type->at(list.member, index);
  found.section = list.type->kind == Kind::nodes ? Node{found.member, list.type->type}
                                                 : static_cast<Slot*>(found.member)->node();
  return found;
}

std::string with_underscores(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

void locate_below(const Located& at, std::span<const std::string> path, std::vector<Located>& found);

void locate_in(Node node, const std::string& parent, std::span<const std::string> path,
               std::vector<Located>& found) {
  const Fields fields = fields_of(node);
  const Field* field = fields.find(with_underscores(path[0]));
  if (field == nullptr) return;
  const Located place = place_of(join_fqn(parent, field->name), *field);
  if (path.size() == 1) {
    found.push_back(place);
  } else if (is_list(*field->type)) {
    for (size_t i = 0; i < field->type->size(field->member); ++i) {
      if (!glob_match(path[1], std::to_string(i))) continue;
      const Located element = element_of(place, i);
      if (path.size() == 2) {
        found.push_back(element);
      } else {
        locate_below(element, path.subspan(2), found);
      }
    }
  } else {
    locate_below(place, path.subspan(1), found);
  }
}

void locate_below(const Located& at, std::span<const std::string> path, std::vector<Located>& found) {
  if (at.section) locate_in(at.section, at.fqn, path, found);
}

void add_leaves(Node node, const std::string& parent, size_t max_elements, std::vector<Located>& leaves) {
  const Fields fields = fields_of(node);
  for (const Field& field : fields.list()) {
    const Located place = place_of(join_fqn(parent, field.name), field);
    if (is_leaf(*field.type)) {
      leaves.push_back(place);
    } else if (is_list(*field.type)) {
      const size_t size = std::min(max_elements, field.type->size(field.member));
      for (size_t i = 0; i < size; ++i) {
        const Located element = element_of(place, i);
        if (element.section) add_leaves(element.section, element.fqn, max_elements, leaves);
      }
    } else if (place.section) {
      add_leaves(place.section, place.fqn, max_elements, leaves);
    }
  }
}

}  // namespace

bool Located::is_leaf() const { return titan::is_leaf(*type); }

std::vector<Located> locate(Node root, std::string_view path) {
  std::vector<Located> found;
  locate_in(root, "", split(path, '.'), found);
  return found;
}

std::vector<Located> leaves_of(Node node, size_t max_elements) {
  std::vector<Located> leaves;
  add_leaves(node, "", max_elements, leaves);
  return leaves;
}

}  // namespace titan
