#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "titan/config/module_exports.h"

namespace titan {

/// A user's module, loaded. It stays loaded until the process ends.
struct LoadedModule {
  std::string name;
  std::filesystem::path file;  ///< the .cpp or .so
  const ModuleExports* exports;
};

/// The folders that modules are looked for in: the current one, then those of TITAN_MODULE_PATH (separated by
/// `:`).
std::vector<std::filesystem::path> module_folders();

/// The file of module `name`: NAME.cpp, else NAME.so, of the first folder that has one; `a.b` is a/b.cpp. A
/// name that ends in .cpp or .so is a path, and so is one with `/`, which may lack its ending. Nothing when
/// there is no such file.
std::optional<std::filesystem::path> find_module(std::string_view name);

/// Loads a user's module: a .cpp is compiled first, or taken from the cache. ConfigError when there is none
/// (naming the folders, and the nearest of the files in them and of `other_names`), when it does not compile,
/// and when a .so was made for another titan. Errors while its own initialisation runs end the program with a
/// message.
LoadedModule load_module(std::string_view name, std::span<const std::string> other_names);

/// The config function `name` of `module`. ConfigError listing its functions, the nearest first.
const ExportedConfig& find_config(const LoadedModule& module, std::string_view name);

/// What the config function returns; an exception of the user's code becomes a ValueError that names the
/// function, but a ValueError passes as it is.
Poly<TrainerConfig> call_config(const LoadedModule& module, const ExportedConfig& function);

}  // namespace titan
