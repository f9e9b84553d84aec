#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "titan/base/json.h"
#include "titan/checkpoint/manager.h"
#include "titan/data/loader.h"
#include "titan/data/tokenizer.h"
#include "titan/distributed/fsdp.h"
#include "titan/distributed/world.h"
#include "titan/models/common/language_model.h"
#include "titan/train/device_memory.h"
#include "titan/train/lr_scheduler.h"
#include "titan/train/metrics.h"
#include "titan/train/optimizer.h"
#include "titan/train/peak_flops.h"
#include "titan/train/trainer_config.h"
#include "titan/train/validate.h"

namespace titan {

/// A run as the command line describes it.
struct RunRequest {
  TrainerConfig config;                          ///< validated, overrides applied
  Json shown_config;                             ///< what debug.print_config and save_config_file show
  std::vector<std::string> override_lines = {};  ///< `[Override] ...` lines for the log
};

/// Everything a run needs, made by the construction steps of build_run() from top to bottom.
struct TrainingRun {
  RunRequest request;
  const TrainerConfig& config() const { return request.config; }

  Launch launch;
  ParallelDims dims;
  std::unique_ptr<World> world;  ///< the other ranks; outlives all that communicates

  DeviceInfo device;
  uint64_t seed = 0;
  int64_t accumulation_steps = 1;

  std::vector<std::shared_ptr<LanguageModel>> model_parts;  ///< one; several under pipeline parallelism
  std::unique_ptr<FullyShardedModel> sharded;               ///< of that one part; null without FSDP
  std::optional<MetricsProcessor> metrics;
  std::optional<Optimizer> optimizer;
  std::optional<LrScheduler> lr_scheduler;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<DataLoader> data;
  std::optional<Validator> validator;
  std::optional<CheckpointManager> checkpoints;

  int64_t step = 0;         ///< optimizer steps done
  int64_t tokens_seen = 0;  ///< input tokens they took, of all ranks

  /// Ranks that read different rows.
  int64_t dp() const { return dims.degree(Axis::batch); }
  /// Every parameter of every part.
  std::vector<Module::NamedParameter> parameters() const;
};

/// Checks everything that can be checked before step 1 and makes the parts, saying on the log what is made,
/// in the reference's order and words. Writes nothing but the log, empty folders, metrics files and
/// debug.save_config_file. ConfigError and ValueError as the parts throw them.
TrainingRun build_run(RunRequest request);

}  // namespace titan
