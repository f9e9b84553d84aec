#pragma once

#include "titan/train/training_run.h"

namespace titan {

/// Trains to the last step, to the end of the data or to SIGINT/SIGTERM, and saves after the last step.
/// Returns the exit code: 0, or 130 and 143 after a signal. ValueError when the loss or the gradient is not
/// finite, when the data gives not even one step, and when the weights cannot be saved.
int train(TrainingRun& run);

}  // namespace titan
