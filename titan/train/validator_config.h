#pragma once

#include <cstdint>

#include "titan/config/fields.h"
#include "titan/data/data_loader_config.h"

namespace titan {

/// Validation: the loss over a held-out set, the same rows every time.
struct ValidatorConfig {
  bool enable = false;
  int64_t freq = 10;
  int64_t steps = -1;
  DataLoaderConfig dataloader = {.dataset = "c4_validation", .dataset_path = {}, .infinite = false};

  void describe(Fields& f) {
    f("enable", enable, "Compute the loss on a validation set");
    f("freq", freq, "Steps between validations; there is one after step 1 too");
    f("steps", steps, "Batches a validation takes; -1: the whole set");
    f("dataloader", dataloader, "The validation set");
  }

  void validate() const;
};

}  // namespace titan
