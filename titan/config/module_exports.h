#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "titan/config/override.h"
#include "titan/config/poly.h"

namespace titan {

/// A function of a module that `--config` names.
struct ExportedConfig {
  std::string name;
  std::function<Poly<TrainerConfig>()> make;
};

/// A function of a module that returns an override.
struct ExportedOverride {
  std::string name;
  std::function<Override()> make;
};

/// What a module offers: functions that can be called without arguments, by what they return.
struct ModuleExports {
  std::vector<ExportedConfig> configs;
  std::vector<ExportedOverride> overrides;
  std::vector<std::string> others;  ///< functions that return something else or need arguments
};

/// Adds the function `name` to the list that its return type belongs to. `call` forwards its arguments, none,
/// to it.
template <class Call>
void export_by_type(ModuleExports& exports, const char* name, Call call) {
  if constexpr (std::invocable<Call>) {
    using Result = std::remove_cvref_t<std::invoke_result_t<Call>>;
    if constexpr (std::is_same_v<Result, Override>) {
      exports.overrides.push_back({name, [call] { return call(); }});
      return;
    } else if constexpr (std::derived_from<Result, TrainerConfig>) {
      exports.configs.push_back({name, [call] { return Poly<TrainerConfig>(Result(call())); }});
      return;
    }
  }
  exports.others.emplace_back(name);
}

}  // namespace titan
