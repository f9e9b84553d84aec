#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "titan/train/trainer_config.h"

namespace titan {

/// A function that --config names.
struct ConfigFunction {
  std::string_view name;
  TrainerConfig (*make)();
};

/// A module that --module names, with its config functions.
struct BuiltinModule {
  std::string_view name;
  std::vector<std::string_view> aliases;  ///< the reference's dotted spellings
  std::vector<ConfigFunction> functions;
};

/// The table of built-in modules. A new model is one more entry.
std::span<const BuiltinModule> builtin_modules();

/// The module of that name or alias, or null.
const BuiltinModule* find_builtin_module(std::string_view name);

/// The names and aliases of built-in modules.
std::vector<std::string> builtin_module_names();

}  // namespace titan
