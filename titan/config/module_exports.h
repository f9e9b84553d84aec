#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "titan/base/json.h"
#include "titan/config/load.h"
#include "titan/config/override.h"
#include "titan/config/poly.h"

namespace titan {

/// A function of a module that `--config` names.
struct ExportedConfig {
  std::string name;
  std::function<Poly<TrainerConfig>()> make;
};

/// A function of a module that returns an override. One that takes a struct gets it from a JSON object; what
/// the object does not name keeps its default. An empty object leaves a default argument as it is.
struct ExportedOverride {
  std::string name;
  std::function<Override(const Json& settings)> make;
  bool takes_settings = false;
};

/// The argument of such a function: becomes whatever struct it takes. ConfigError for fields that are not
/// there and values that do not fit.
struct SettingsArgument {
  const Json& json;
  std::string_view function;

  template <Described Settings>
  operator Settings() const {
    Settings settings;
    load_fields(node_of(settings), json, function);
    return settings;
  }
};

/// What a module offers: functions by what they return.
struct ModuleExports {
  std::vector<ExportedConfig> configs;
  std::vector<ExportedOverride> overrides;
  std::vector<std::string> others;  ///< functions that return something else or need arguments
};

/// Adds the function `name` to the list that its return type belongs to. `call` forwards its arguments, none,
/// to it.
template <class Call>
void export_by_type(ModuleExports& exports, const char* name, Call call) {
  if constexpr (std::invocable<Call, SettingsArgument>) {
    if constexpr (std::is_same_v<std::remove_cvref_t<std::invoke_result_t<Call, SettingsArgument>>,
                                 Override>) {
      const auto make = [call, name](const Json& settings) {
        if constexpr (std::invocable<Call>) {
          if (settings.size() == 0) return Override(call());
        }
        return Override(call(SettingsArgument{settings, name}));
      };
      exports.overrides.push_back({name, make, true});
      return;
    }
  }
  if constexpr (std::invocable<Call>) {
    using Result = std::remove_cvref_t<std::invoke_result_t<Call>>;
    if constexpr (std::is_same_v<Result, Override>) {
      exports.overrides.push_back({name, [call](const Json&) { return call(); }});
      return;
    } else if constexpr (std::derived_from<Result, TrainerConfig>) {
      exports.configs.push_back({name, [call] { return Poly<TrainerConfig>(Result(call())); }});
      return;
    }
  }
  exports.others.emplace_back(name);
}

}  // namespace titan
