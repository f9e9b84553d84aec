#include "titan/recipes/resolve.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/hints.h"
#include "titan/base/json.h"
#include "titan/base/log.h"
#include "titan/base/strings.h"
#include "titan/config/cli.h"
#include "titan/config/load.h"
#include "titan/config/module.h"
#include "titan/config/override.h"
#include "titan/config/override_imports.h"
#include "titan/config/validate.h"
#include "titan/config/walk.h"
#include "titan/recipes/builtin.h"

namespace titan {

namespace {

constexpr std::string_view kExample = "for example: --module qwen3 --config qwen3_debugmodel";

Poly<TrainerConfig> as_trainer_config(Node node, std::string_view what) {
  Poly<TrainerConfig> config;
  try {
    config.assign(node);
  } catch (const ConfigError& error) {
    throw ConfigError("{}: {}", what, error.what());
  }
  return config;
}

/// The struct types of the built-in configs, so that a file may name each of them.
std::vector<const NodeType*> builtin_types() {
  std::vector<const NodeType*> types = {&node_type<TrainerConfig>};
  const auto add = [&](const Place& place) {
    if (place.slot == nullptr) return;
    const auto is_same = [&](const NodeType* type) { return same_type(*type, *place.node.type); };
    if (std::ranges::none_of(types, is_same)) types.push_back(place.node.type);
  };
  for (const BuiltinModule& module : builtin_modules()) {
    for (const ConfigFunction& function : module.functions) {
      const TrainerConfig config = function.make();
      walk(node_of(config), add);
    }
  }
  types.push_back(&node_type<CosSinRoPEConfig>);
  types.push_back(&node_type<ComplexRoPEConfig>);
  return types;
}

Poly<TrainerConfig> load_file(const std::string& file) {
  const std::vector<const NodeType*> types = builtin_types();
  Json json;
  try {
    json = Json::parse_file(file);
  } catch (const ValueError& error) {
    throw ConfigError("--config: {}", error.what());
  }
  return as_trainer_config(load_config(json, types, file).node(), file);
}

Poly<TrainerConfig> call_builtin(const BuiltinModule& module, const std::string& name) {
  std::vector<std::string> names;
  for (const ConfigFunction& function : module.functions) {
    if (function.name == name) return function.make();
    names.emplace_back(function.name);
  }
  throw ConfigError("no config function '{}' in the built-in module {}{}", name, module.name,
                    did_you_mean_of(name, names, "it has"));
}

Poly<TrainerConfig> call_module(const std::string& module_name, const std::string& config) {
  if (const BuiltinModule* module = find_builtin_module(module_name)) {
    if (const auto file = find_module(module_name)) {
      warn_once(format("{} is not used: '{}' is built in (--module {} would take the file)", file->string(),
                       module_name, file->string()));
    }
    return call_builtin(*module, config);
  }
  const LoadedModule module = load_module(module_name, builtin_module_names());
  return call_config(module, find_config(module, config));
}

bool names_file(const std::string& config) { return config.ends_with(".json"); }

struct Request {
  std::optional<std::string> module;
  std::optional<std::string> config;
  std::vector<std::string> rest;
};

Request parse_request(std::span<const std::string> words) {
  Request request{{}, {}, {words.begin(), words.end()}};
  request.module = take_option(request.rest, "module");
  request.config = take_option(request.rest, "config");
  return request;
}

Poly<TrainerConfig> start_config(const Request& request) {
  if (!request.config) throw ConfigError("--config is missing; {}", kExample);
  if (!request.module && names_file(*request.config)) return load_file(*request.config);
  if (!request.module) {
    throw ConfigError("--module is missing; {}, or --config FILE.json alone", kExample);
  }
  if (names_file(*request.config)) {
    throw ConfigError("--config {} is a file, which goes without --module (given: {})", *request.config,
                      *request.module);
  }
  return call_module(*request.module, *request.config);
}

}  // namespace

ResolvedConfig resolve_config(std::span<const std::string> words) {
  const Request request = parse_request(words);
  ResolvedConfig resolved{start_config(request), {}, {}};
  Poly<TrainerConfig>& config = resolved.config;
  set_from_command_line(config.node(), request.rest);
  check_status(config.node());
  resolved.before_overrides = config;
  resolved.override_lines = apply_overrides(config.node(), import_overrides(config->override.imports));
  validate(config.node(), &*config);
  return resolved;
}

Poly<TrainerConfig> unchecked_config(std::span<const std::string> words) {
  const Request request = parse_request(words);
  Poly<TrainerConfig> config = request.module || request.config ? start_config(request) : TrainerConfig{};
  set_from_command_line(config.node(), request.rest);
  return config;
}

}  // namespace titan
