#pragma once

#include <span>
#include <string>
#include <vector>

#include "titan/train/trainer_config.h"

namespace titan {

/// What a command line asks for.
struct ResolvedConfig {
  Poly<TrainerConfig> config;               ///< with the overrides of override.imports applied, validated
  Poly<TrainerConfig> before_overrides;     ///< what FILE.json holds: loading it applies the overrides again
  std::vector<std::string> override_lines;  ///< `[Override] ...` and `Applied N override(s)`, for the log
};

/// `--module M --config C [--section.field value ...]` or `--config FILE.json [...]`: calls the config
/// function (or reads the file), sets what the words say, applies overrides, and checks everything.
/// ConfigError for whatever is wrong with it; settings without effect warn.
ResolvedConfig resolve_config(std::span<const std::string> words);

/// The config function or file alone, with the words set, unchecked: what `titan config --help` describes.
/// Without --module and --config the defaults.
Poly<TrainerConfig> unchecked_config(std::span<const std::string> words);

}  // namespace titan
