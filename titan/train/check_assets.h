#pragma once

#include <string>
#include <vector>

#include "titan/train/trainer_config.h"

namespace titan {

/// Compares the config.json of the folders that a run reads from or exports to with the model it trains.
/// Returns one warning a folder that disagrees; ConfigError instead where weights of the one would be wrong
/// in the other: when they are loaded from, or exported with, that folder's config.json. Folders without a
/// config.json say nothing.
std::vector<std::string> check_assets(const TrainerConfig& config);

}  // namespace titan
