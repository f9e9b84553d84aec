#include "titan/config/load.h"

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/config/text.h"
#include "titan/config/walk.h"

namespace titan {

namespace {

constexpr std::string_view kTypeKey = "type";

class Loader {
 public:
  Loader(std::span<const NodeType* const> types, std::string_view what) : types_(types), what_(what) {}

  void load_into(Node node, const Json& json) { fill(node, json, "", false); }

  AnyNode load_root(const Json& json) {
    AnyNode root(find_type(json, "", {}));
    fill(root.node(), json, "", true);
    return root;
  }

 private:
  void fill(Node node, const Json& json, const std::string& fqn, bool typed) {
    if (!json.is_object())
      fail(fqn, format("expects an object ({}), found {}", type_name(*node.type), json.kind()));
    const Fields fields = fields_of(node);
    for (const auto& [key, value] : json.items()) {
      if (typed && key == kTypeKey) continue;
      const Field* field = fields.find(key);
      if (field == nullptr) fail_unknown(fields, node, key, fqn);
      fill_field(*field, value, join_fqn(fqn, key));
    }
  }

  void fill_field(const Field& field, const Json& value, const std::string& fqn) {
    switch (field.type->kind) {
      case Kind::node:
        return fill({field.member, field.type->type}, value, fqn, false);
      case Kind::slot:
        return fill_slot(*static_cast<Slot*>(field.member), *field.type, value, fqn);
      case Kind::nodes:
      case Kind::slots:
        return fill_list(field, value, fqn);
      default:
        break;
    }
    try {
      set_json(*field.type, field.member, value);
    } catch (const ConfigError& error) {
      fail(fqn, error.what());
    }
  }

  void fill_slot(Slot& slot, const MemberType& type, const Json& value, const std::string& fqn) {
    if (value.is_null()) return slot.reset();
    std::vector<const NodeType*> near{type.type};
    if (slot) near.push_back(slot.node().type);
    for (const Alternative& alternative : type.alternatives) near.push_back(alternative.type);
    // Without a "type" a hand-written file means the one that stands there.
    const bool named = value.find(kTypeKey) != nullptr;
    if (named || !slot) {
      const NodeType& wanted = find_type(value, fqn, near);
      if (!slot || !same_type(*slot.node().type, wanted)) {
        try {
          slot.assign(AnyNode(wanted).node());
        } catch (const ConfigError& error) {
          fail(fqn, error.what());
        }
      }
    }
    fill(slot.node(), value, fqn, true);
  }

  void fill_list(const Field& field, const Json& value, const std::string& fqn) {
    if (!value.is_array()) fail(fqn, format("expects a {}, found {}", kind_name(*field.type), value.kind()));
    field.type->resize(field.member, 0);
    field.type->resize(field.member, value.size());
    for (size_t i = 0; i < value.size(); ++i) {
      void* element = field.type->at(field.member, i);
      const std::string element_fqn = join_fqn(fqn, std::to_string(i));
      if (field.type->kind == Kind::nodes) {
        fill({element, field.type->type}, value.at(i), element_fqn, false);
      } else {
        fill_slot(*static_cast<Slot*>(element), *field.type, value.at(i), element_fqn);
      }
    }
  }

  const NodeType& find_type(const Json& json, const std::string& fqn, std::vector<const NodeType*> near) {
    if (!json.is_object()) fail(fqn, format("expects an object with a \"type\", found {}", json.kind()));
    const Json* name = json.find(kTypeKey);
    if (name == nullptr || !name->is_string()) {
      fail(fqn, "needs a \"type\": the name of a config struct, as `titan config --json` prints it");
    }
    near.insert(near.end(), types_.begin(), types_.end());
    std::vector<std::string> known;
    for (const NodeType* type : near) {
      known.push_back(type_name(*type));
      if (known.back() == name->as_string()) return *type;
    }
    fail(fqn, format("there is no config struct '{}' here{}. A struct of a user's module can only come from "
                     "that module: "
                     "use --module",
                     name->as_string(), did_you_mean(name->as_string(), known)));
  }

  [[noreturn]] void fail_unknown(const Fields& fields, Node node, const std::string& key,
                                 const std::string& fqn) {
    std::vector<std::string> known;
    for (const Field& field : fields.list()) known.emplace_back(field.name);
    fail(fqn, format("{} has no field '{}'{}", type_name(*node.type), key, did_you_mean(key, known)));
  }

  [[noreturn]] void fail(const std::string& fqn, std::string_view message) {
    throw ConfigError("{}: {}{}{}", what_, fqn, fqn.empty() ? "" : " ", message);
  }

  std::span<const NodeType* const> types_;
  std::string what_;
};

}  // namespace

void load_fields(Node node, const Json& json, std::string_view what) {
  Loader({}, what).load_into(node, json);
}

AnyNode load_config(const Json& json, std::span<const NodeType* const> types, std::string_view what) {
  return Loader(types, what).load_root(json);
}

}  // namespace titan
