#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "titan/base/json.h"
#include "titan/models/common/attention_config.h"
#include "titan/models/common/hf_comparison.h"
#include "titan/models/common/model_spec.h"

namespace titan {

/// A value of model_type in config.json, and whether its models run or are only read and counted.
struct HfArchitecture {
  std::string_view model_type;
  bool runs;
};

/// What the rest of titan asks a model family without knowing it.
struct ModelFamily {
  std::string_view name;  ///< ModelSpec::name
  std::vector<std::string> (*flavors)();
  /// What from_assets reads.
  std::vector<HfArchitecture> architectures;
  /// The model of a Hugging Face folder, from its config.json alone.
  ModelSpec (*from_assets)(const std::string& assets);
  /// What a config.json says against a model; `what` names the file in errors.
  HfComparison (*compare)(const ModelSpec& spec, const Json& hf, std::string_view what);
  /// A config.json for the model.
  Json (*hf_config)(const ModelSpec& spec);
};

/// Every family built in. A new model is one more line in its table.
std::span<const ModelFamily> model_families();

/// The family of a spec. ConfigError when there is none of that name.
const ModelFamily& family_of(const ModelSpec& spec);

/// The model of any Hugging Face folder. ValueError naming the file and the architectures there are.
ModelSpec spec_from_assets(const std::string& assets);

}  // namespace titan
