#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "titan/data/loader.h"
#include "titan/train/train_step.h"
#include "titan/train/validator_config.h"

namespace titan {

class Tokenizer;

/// What one validation round found.
struct ValidationResult {
  double loss = 0;           ///< mean over all valid tokens of the round, of all ranks
  int64_t num_tokens = 0;    ///< tokens this rank read, padding included
  int64_t valid_tokens = 0;  ///< labels that counted, of all ranks
};

/// Where a rank's validation rows come from.
struct ValidationRows {
  std::function<std::optional<Batch>()> next;  ///< nothing once the rank has read its rows
  std::function<Batch()> padding;              ///< what it goes on with while other ranks have rows
};

/// Mean over the valid tokens of all ranks' batches, at most `max_batches` a rank (-1: until no rank has any
/// left): a mean over tokens, not of batches' means. Records no gradients. CommonError when no label counts.
ValidationResult validate(const ValidationRows& rows, const LossFunction& loss, int64_t max_batches,
                          World& world);

/// The held-out set with its loader: every round reads the same rows from the beginning.
class Validator {
 public:
  /// Opens the data set; errors as DataLoader's.
  Validator(const ValidatorConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
            const LoaderOptions& options);

  /// After step 1 and every multiple of validator.freq.
  bool is_due(int64_t step) const { return step == 1 || step % config_.freq == 0; }

  ValidationResult run(const LossFunction& loss, World& world);

 private:
  ValidatorConfig config_;
  DataLoader loader_;
};

}  // namespace titan
