#include "titan/config/override_imports.h"

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/config/module.h"
#include "titan/config/module_error.h"

namespace titan {
namespace {

bool is_settings(const std::string& text) {
  try {
    return Json::parse(text, "").is_object();
  } catch (const ValueError&) {
    return false;
  }
}

/// Named after its function where it has no name.
Override make_override(const LoadedModule& module, const ExportedOverride& function, const Json& settings) {
  try {
    Override made = function.make(settings);
    if (made.name.empty()) made.name = function.name;
    return made;
  } catch (const ValueError&) {
    throw;
  } catch (...) {
    throw CommonError("{} in {} failed: {}", function.name, module.file.string(), thrown_text());
  }
}

/// An override, and where it comes from.
struct ImportedOverride {
  Override made;
  const ExportedOverride* function;
  std::filesystem::path file;
  std::string target;  ///< what override.imports names
};

std::vector<ImportedOverride> all_of_module(const std::string& name) {
  const LoadedModule module = load_module(name, {});
  std::vector<ImportedOverride> overrides;
  for (const ExportedOverride& function : module.exports->overrides) {
    overrides.push_back({make_override(module, function, Json::object()), &function, module.file, name});
  }
  if (overrides.empty()) {
    throw ConfigError("{} has no overrides: functions at file scope, not static, that return an Override",
                      module.file.string());
  }
  return overrides;
}

ImportedOverride one_of_module(std::string_view module_name, std::string_view wanted,
                               const OverrideImport& import) {
  const LoadedModule module = load_module(module_name, {});
  std::vector<std::string> names;
  for (const ExportedOverride& function : module.exports->overrides) {
    names.push_back(function.name);
    if (function.name != wanted) continue;
    if (import.settings && !function.takes_settings) {
      throw ConfigError("override.imports: {} in {} takes nothing, got {}", wanted, module.file.string(),
                        import.settings->dump());
    }
    return {make_override(module, function, import.settings.value_or(Json::object())), &function, module.file,
            import.target};
  }
  throw ConfigError("no override '{}' in {}{}; it has {}", wanted, module.file.string(),
                    did_you_mean(wanted, names), names.empty() ? "none" : join(names, ", "));
}

/// Settings may make several overrides of one function, if they give each its name.
void require_new(const ImportedOverride& one, const std::vector<ImportedOverride>& before) {
  for (const ImportedOverride& other : before) {
    if (other.function != one.function || other.made.name != one.made.name) continue;
    if (other.target == one.target) throw ConfigError("override.imports names {} twice", one.target);
    throw ConfigError("override.imports: {} and {} are both {} in {}: name it once", other.target, one.target,
                      one.function->name, one.file.string());
  }
}

std::vector<ImportedOverride> imported(const OverrideImport& import) {
  const size_t dot = import.target.rfind('.');
  const bool is_module = dot == std::string::npos || find_module(import.target);
  if (!is_module) {
    const std::string_view target = import.target;
    return {one_of_module(target.substr(0, dot), target.substr(dot + 1), import)};
  }
  if (import.settings) {
    throw ConfigError("override.imports: {} is a module; settings are for one function, {}.FUNCTION={}",
                      import.target, import.target, import.settings->dump());
  }
  return all_of_module(import.target);
}

}  // namespace

std::vector<OverrideImport> parse_override_imports(const std::vector<std::string>& words) {
  std::vector<OverrideImport> imports;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    OverrideImport import{words[i].substr(0, equals)};
    if (equals != std::string::npos) {
      std::string text = words[i].substr(equals + 1);
      size_t last = i;
      while (!is_settings(text) && last + 1 < words.size()) text += "," + words[++last];
      if (!is_settings(text)) {
        throw ConfigError(
            "override.imports: {} is given {}, which is no JSON object; write {}={\"field\": value}",
            import.target, words[i].substr(equals + 1), import.target);
      }
      import.settings = Json::parse(text, import.target);
      i = last;
    }
    imports.push_back(std::move(import));
  }
  return imports;
}

std::vector<Override> import_overrides(const std::vector<std::string>& words) {
  std::vector<ImportedOverride> all;
  for (const OverrideImport& import : parse_override_imports(words)) {
    for (ImportedOverride& one : imported(import)) {
      require_new(one, all);
      all.push_back(std::move(one));
    }
  }
  std::vector<Override> overrides;
  for (ImportedOverride& one : all) overrides.push_back(std::move(one.made));
  return overrides;
}

}  // namespace titan
