#pragma once

/// What a user's config module includes: the trainer's tree, the model families, and functions to start from.
///
///   #include <titan/recipes.h>
///   using namespace titan;
///   TrainerConfig my_run() { auto config = qwen3::qwen3_32b(); ...; return config; }

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/strings.h"
#include "titan/config/derive.h"
#include "titan/config/fields.h"
#include "titan/config/override.h"
#include "titan/config/walk.h"
#include "titan/recipes/qwen3.h"
#include "titan/train/trainer_config.h"

namespace titan {

/// The reference's name for TrainerConfig.
struct Trainer {
  using Config = TrainerConfig;
};

}  // namespace titan
