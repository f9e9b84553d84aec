// `titan batches`: the rows that `titan train` with the same arguments would train on.

#include <ATen/ops/from_blob.h>

#include <iostream>

#include "apps/titan/commands.h"
#include "titan/base/error.h"
#include "titan/checkpoint/safetensors.h"
#include "titan/config/cli.h"
#include "titan/data/loader.h"
#include "titan/data/tokenizer.h"
#include "titan/recipes/resolve.h"

namespace titan {

namespace {

constexpr const char* kUsage =
    "titan batches: write the rows that `titan train` with the same arguments would train on\n\n"
    "Usage: titan batches --module M --config C [--section.field value ...] --out FILE\n\n"
    "  --out FILE   safetensors with input_ids, labels (-100: does not count) and position_ids, int64\n"
    "               [training.steps * rows of a step, training.seq_len], in the order of training\n"
    "  --validation the rows of one validation round instead\n";

/// Rows of one tensor, gathered batch by batch.
class Rows {
 public:
  void add(const std::vector<int64_t>& values) {
    values_.insert(values_.end(), values.begin(), values.end());
  }
  at::Tensor tensor(int64_t seq_len) {
    return at::from_blob(values_.data(), {static_cast<int64_t>(values_.size()) / seq_len, seq_len},
                         at::kLong);
  }

 private:
  std::vector<int64_t> values_;
};

}  // namespace

extern "C" int batches_command(std::span<const std::string> args) {
  std::vector<std::string> words(args.begin(), args.end());
  if (take_flag(words, "help") || std::erase(words, "-h") > 0) {
    std::cout << kUsage;
    return 0;
  }
  const auto out = take_option(words, "out");
  if (!out) throw ConfigError("titan batches: --out FILE is required: where the rows go");
  const bool validation = take_flag(words, "validation");
  const ResolvedConfig resolved = resolve_config(words);
  const TrainerConfig& config = *resolved.config;
  const TrainingConfig& training = config.training;

  auto tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(config.hf_assets_path));
  DataLoader loader(validation ? config.validator.dataloader : config.dataloader, tokenizer,
                    {.seq_len = training.seq_len, .local_batch_size = training.local_batch_size});
  const int64_t per_step = validation ? 1 : gradient_accumulation_steps(training, 1);
  const int64_t steps = validation ? config.validator.steps : training.steps;
  Rows input_ids, labels, positions;
  for (int64_t i = 0; steps < 0 || i < steps * per_step; ++i) {
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    input_ids.add(batch->input_ids);
    labels.add(batch->labels);
    positions.add(batch->positions);
  }
  save_safetensors(*out, {{"input_ids", input_ids.tensor(training.seq_len)},
                          {"labels", labels.tensor(training.seq_len)},
                          {"position_ids", positions.tensor(training.seq_len)}});
  return 0;
}

}  // namespace titan
