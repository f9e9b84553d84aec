#include "titan/recipes/builtin.h"

#include <algorithm>

#include "titan/recipes/qwen3.h"

namespace titan {

std::span<const BuiltinModule> builtin_modules() {
  static const std::vector<BuiltinModule> modules = {
      {.name = "qwen3",
       .aliases = {"torchtitan.models.qwen3", "torchtitan.models.qwen3.config_registry"},
       .functions = {{"qwen3_demo", &qwen3::qwen3_demo},
                     {"qwen3_debugmodel", &qwen3::qwen3_debugmodel},
                     {"qwen3_debugmodel_non_fused_qkv", &qwen3::qwen3_debugmodel_non_fused_qkv},
                     {"qwen3_debugmodel_moe_param_groups", &qwen3::qwen3_debugmodel_moe_param_groups},
                     {"qwen3_moe_debug", &qwen3::qwen3_moe_debug},
                     {"qwen3_0_6b", &qwen3::qwen3_0_6b},
                     {"qwen3_1_7b", &qwen3::qwen3_1_7b},
                     {"qwen3_14b", &qwen3::qwen3_14b},
                     {"qwen3_32b", &qwen3::qwen3_32b},
                     {"qwen3_30b_a3b", &qwen3::qwen3_30b_a3b}}},
  };
  return modules;
}

const BuiltinModule* find_builtin_module(std::string_view name) {
  for (const auto& module : builtin_modules()) {
    if (module.name == name || std::ranges::find(module.aliases, name) != module.aliases.end())
      return &module;
  }
  return nullptr;
}

std::vector<std::string> builtin_module_names() {
  std::vector<std::string> names;
  for (const auto& module : builtin_modules()) {
    names.emplace_back(module.name);
    names.insert(names.end(), module.aliases.begin(), module.aliases.end());
  }
  return names;
}

}  // namespace titan
