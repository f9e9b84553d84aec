#pragma once

#include <string>

#include "titan/train/trainer_config.h"

namespace titan {

/// Runs the model's forward and backward once on shapes alone, with training.local_batch_size rows of
/// training.seq_len tokens, so that what a module or a kernel demands of its shapes is said before a weight
/// is made or read: of the first and of the last tensor-parallel rank, where there are several, whose
/// kernels see their own heads and tokens. Layers that are configured alike run once. CommonError with the
/// words of whoever objects. Warns where a module of the user's cannot run on shapes, and of trainable
/// parameters that get no gradient. Returns what was checked, a line; empty where that was not possible.
std::string check_shapes(const TrainerConfig& config);

}  // namespace titan
