#pragma once

#include <string>

#include "titan/train/trainer_config.h"

namespace titan {

/// What `titan config --summary` prints: the model's parameters (total, active, by component), FLOPs per
/// token and the batch, all from the tree; nothing is allocated. ConfigError when there is no model.
std::string summary(const TrainerConfig& config);

}  // namespace titan
