#include "titan/config/node.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/config/fields.h"

namespace titan {

namespace {

std::string demangle(const char* mangled) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                              std::free);
  return status == 0 ? std::string(text.get()) : std::string(mangled);
}

}  // namespace

bool same_type(const NodeType& a, const NodeType& b) {
  if (&a == &b) return true;
  const char* name = a.info->name();
  if (std::strcmp(name, b.info->name()) != 0) return false;
  constexpr std::string_view kOwnPrefix = "N5titan";
  return a.module == b.module || std::string_view(name).starts_with(kOwnPrefix);
}

std::string type_name(const NodeType& type) {
  std::string name;
  for (const auto& part : split(demangle(type.info->name()), ':')) {
    if (part.empty()) continue;  // between the two colons
    const bool is_namespace =
        std::islower(static_cast<unsigned char>(part[0])) || part[0] == '(' || part[0] == '_';
    if (name.empty() && is_namespace) continue;
    name += (name.empty() ? "" : ".") + part;
  }
  return name.empty() ? demangle(type.info->name()) : name;
}

void* upcast(Node node, const NodeType& base) {
  if (!node) return nullptr;
  if (same_type(*node.type, base)) return node.data;
  const Fields fields = fields_of(node);
  for (const Node& part : fields.bases()) {
    if (same_type(*part.type, base)) return part.data;
  }
  return nullptr;
}

void require_builder(void (*builder)(), const NodeType& type) {
  if (builder != nullptr) return;
  throw ValueError(
      "nothing here can build a {}: define `template <> ModulePtr titan::build(const {}&)` (for a type "
      "outside of functions "
      "and unnamed namespaces)",
      type_name(type), demangle(type.info->name()));
}

}  // namespace titan
