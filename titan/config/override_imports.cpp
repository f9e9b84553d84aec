#include "titan/config/override_imports.h"

#include <algorithm>

#include "titan/base/error.h"
#include "titan/base/hints.h"
#include "titan/base/strings.h"
#include "titan/config/module.h"
#include "titan/config/module_error.h"

namespace titan {
namespace {

/// The beginning of a long text.
std::string shortened(const std::string& text) {
  constexpr size_t kMostBytes = 200;
  if (text.size() <= kMostBytes) return text;
  size_t end = kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return text.substr(0, end) + "...";
}

Json parse_settings(const std::string& target, const std::string& text) {
  std::string reason;
  try {
    Json settings = Json::parse(text, "it");
    if (settings.is_object()) return settings;
    reason = format("it is {}", settings.kind());
  } catch (const ValueError& error) {
    reason = error.what();
  }
  throw ConfigError(
      "override.imports: {} is given {}, which is no JSON object ({}); write {}={\"field\": value}", target,
      shortened(text), shortened(reason), target);
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
    throw ConfigError(
        "{} has no overrides: functions at file scope, not static nor made by a macro, that return an "
        "Override",
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
  if (std::ranges::find(module.exports->others, wanted) != module.exports->others.end()) {
    throw ConfigError(
        "override.imports: {} in {} is no override function: one returns an Override and takes nothing or a "
        "struct with describe, as S or const S&",
        wanted, module.file.string());
  }
  throw ConfigError("no override '{}' in {}{}", wanted, module.file.string(),
                    did_you_mean_of(wanted, names, "it has"));
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
  const bool has_function = dot != std::string::npos && import.target.find('/', dot) == std::string::npos;
  const bool is_module = !has_function || find_module(import.target);
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
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    OverrideImport import{word.substr(0, equals)};
    if (equals != std::string::npos) import.settings = parse_settings(import.target, word.substr(equals + 1));
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
