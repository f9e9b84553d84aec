#include "titan/models/families.h"

#include <filesystem>

#include "titan/base/error.h"
#include "titan/models/qwen3/hf_config.h"

namespace titan {

std::span<const ModelFamily> model_families() {
  static const std::vector<ModelFamily> families = {
      {.name = "qwen3",
       .flavors = &qwen3::flavors,
       .architectures = {{"qwen3", true}, {"qwen3_moe", false}},
       .from_assets = [](const std::string& assets) { return qwen3::from_assets(assets); },
       .compare = &qwen3::compare,
       .hf_config = &qwen3::hf_config},
  };
  return families;
}

const ModelFamily& family_of(const ModelSpec& spec) {
  std::vector<std::string> known;
  for (const auto& family : model_families()) {
    if (family.name == spec.name) return family;
    known.emplace_back(family.name);
  }
  throw ConfigError("model_spec.name \"{}\" is no model family; there is: {}", spec.name, join(known, ", "));
}

ModelSpec spec_from_assets(const std::string& assets) {
  const auto path = std::filesystem::path(assets) / "config.json";
  const Json hf = Json::parse_file(path);
  const Json* type = hf.find("model_type");
  if (!type || !type->is_string()) {
    throw ValueError("{}: \"model_type\" is missing; it says which architecture the weights belong to",
                     path.string());
  }
  std::vector<std::string> known;
  for (const auto& family : model_families()) {
    for (const auto& [model_type, runs] : family.architectures) {
      if (model_type == type->as_string()) return family.from_assets(assets);
      known.emplace_back(model_type);
    }
  }
  throw ValueError(
      "{}: model_type \"{}\" is not built yet; there is: {} (docs/add_a_model.md says how to add one)",
      path.string(), type->as_string(), join(known, ", "));
}

}  // namespace titan
