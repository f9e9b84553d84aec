#include "titan/config/fields.h"

namespace titan {

const Field* Fields::find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (name == field.name) return &field;
  }
  return nullptr;
}

void Fields::add_base(void* part, const NodeType& type) {
  bases_.push_back({part, &type});
  type.describe(part, *this);
}

Fields fields_of(Node node) {
  Fields fields;
  node.type->describe(node.data, fields);
  return fields;
}

}  // namespace titan
