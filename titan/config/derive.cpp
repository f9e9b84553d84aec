#include "titan/config/derive.h"

#include "titan/base/error.h"
#include "titan/base/hints.h"
#include "titan/base/strings.h"
#include "titan/config/text.h"

namespace titan {

namespace {

[[noreturn]] void throw_different(Node to, Node from, const Field& field, const Field& source) {
  throw ConfigError("{} cannot be derived from {}: field '{}' is a {} in the one and a {} in the other",
                    type_name(*to.type), type_name(*from.type), field.name, kind_name(*field.type),
                    kind_name(*source.type));
}

void copy_list_of_nodes(const Field& to, const Field& from) {
  to.type->resize(to.member, from.type->size(from.member));
  for (size_t i = 0; i < from.type->size(from.member); ++i) {
    copy_shared_fields({to.type->at(to.member, i), to.type->type},
                       {from.type->at(from.member, i), from.type->type});
  }
}

void copy_slot(Slot& to, const Slot& from) {
  if (from) return to.assign(from.node());
  to.reset();
}

void copy_field(Node to, Node from, const Field& field, const Field& source) {
  const Kind kind = field.type->kind;
  if (kind != source.type->kind) throw_different(to, from, field, source);
  if (kind == Kind::slot) {
    return copy_slot(*static_cast<Slot*>(field.member), *static_cast<const Slot*>(source.member));
  }
  const bool same_struct = field.type->type == nullptr || same_type(*field.type->type, *source.type->type);
  if (same_struct && *field.type->info == *source.type->info) {
    return field.type->copy(field.member, source.member);
  }
  if (kind == Kind::node) {
    return copy_shared_fields({field.member, field.type->type}, {source.member, source.type->type});
  }
  if (kind == Kind::nodes) return copy_list_of_nodes(field, source);
  if (kind == Kind::slots) {
    field.type->resize(field.member, source.type->size(source.member));
    for (size_t i = 0; i < source.type->size(source.member); ++i) {
      copy_slot(*static_cast<Slot*>(field.type->at(field.member, i)),
                *static_cast<const Slot*>(source.type->at(source.member, i)));
    }
    return;
  }
  throw_different(to, from, field, source);
}

}  // namespace

void copy_shared_fields(Node to, Node from) {
  const Fields targets = fields_of(to), sources = fields_of(from);
  for (const Field& field : targets.list()) {
    if (const Field* source = sources.find(field.name)) copy_field(to, from, field, *source);
  }
}

void apply_deltas(Node node, std::initializer_list<Delta> deltas) {
  const Fields fields = fields_of(node);
  for (const Delta& delta : deltas) {
    const Field* field = fields.find(delta.field);
    if (field == nullptr || !is_leaf(*field->type)) {
      std::vector<std::string> known;
      for (const Field& other : fields.list()) {
        if (is_leaf(*other.type)) known.emplace_back(other.name);
      }
      throw ConfigError("{} has no {} '{}'{}", type_name(*node.type), field ? "plain field" : "field",
                        delta.field, did_you_mean_of(delta.field, known, "it has"));
    }
    try {
      set_text(*field->type, field->member, delta.value);
    } catch (const ConfigError& error) {
      throw ConfigError("{}.{} {}", type_name(*node.type), field->name, error.what());
    }
  }
}

}  // namespace titan
