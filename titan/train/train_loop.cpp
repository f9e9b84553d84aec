#include "titan/train/train_loop.h"

#include <ATen/ops/from_blob.h>

#include <chrono>

#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/train/hf_model.h"
#include "titan/train/interrupt.h"
#include "titan/train/progress.h"

namespace titan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The batch outlives the tensors: backward has run when the loss function's caller lets go of it.
at::Tensor view(const std::vector<int64_t>& values, const Batch& batch) {
  return at::from_blob(const_cast<int64_t*>(values.data()), {batch.rows, batch.seq_len}, at::kLong);
}

LossFunction loss_function(const Trainer& trainer) {
  check(trainer.model_parts.size() == 1, "a run without pipeline stages has one model part");
  return [model = trainer.model_parts.front()](const Batch& batch, double normalizer) {
    return model->loss({.input_ids_BT = view(batch.input_ids, batch),
                        .positions_BT = view(batch.positions, batch),
                        .labels_BT = view(batch.labels, batch)},
                       normalizer);
  };
}

/// All micro-batches of a step, or nothing when the data ends before the last of them.
std::optional<std::vector<Batch>> fetch(Trainer& trainer) {
  std::vector<Batch> micro_batches;
  for (int64_t i = 0; i < trainer.accumulation_steps; ++i) {
    const auto start = Clock::now();
    std::optional<Batch> batch = trainer.data->next();
    if (!batch) return std::nullopt;
    trainer.metrics->add_batch(seconds_since(start), batch->rows * batch->seq_len);
    micro_batches.push_back(std::move(*batch));
  }
  return micro_batches;
}

void log_step(Trainer& trainer, const StepLoss& loss, double grad_norm, double lr_factor) {
  if (!trainer.metrics->should_log(trainer.step)) return;
  trainer.metrics->log_step({.step = trainer.step,
                             .avg_loss = loss.avg_loss,
                             .max_loss = loss.avg_loss,
                             .grad_norm = grad_norm,
                             .tokens_seen = trainer.tokens_seen},
                            trainer.optimizer->learning_rates(lr_factor));
}

/// One optimizer step; false when the data has ended, and then nothing is changed.
bool train_step(Trainer& trainer, const LossFunction& loss_of) {
  const auto micro_batches = fetch(trainer);
  if (!micro_batches) return false;
  const int64_t step = trainer.step + 1;
  const double lr_factor = trainer.lr_scheduler->factor(step - 1);
  const StepLoss loss = accumulate_gradients(*micro_batches, loss_of);
  const double grad_norm =
      update(*trainer.optimizer, loss.avg_loss, trainer.config().training.max_norm, lr_factor, step);

  trainer.step = step;
  for (const Batch& batch : *micro_batches) trainer.tokens_seen += batch.rows * batch.seq_len;
  trainer.metrics->count_step();
  log_step(trainer, loss, grad_norm, lr_factor);
  return true;
}

void validate_if_due(Trainer& trainer, const LossFunction& loss_of) {
  if (!trainer.validator || !trainer.validator->is_due(trainer.step)) return;
  const auto start = Clock::now();
  const ValidationResult result = trainer.validator->run(loss_of);
  trainer.metrics->log_validation(trainer.step, result.loss, result.num_tokens, seconds_since(start));
}

void save_last(const Trainer& trainer) {
  trainer.checkpoints->save_last(trainer.step,
                                 hf_model(*trainer.model_parts.front(), trainer.config().model_spec));
}

[[noreturn]] void refuse_too_little_data(const Trainer& trainer) {
  throw ValueError(
      "dataloader: the data set ends before the first step has its {} batch(es) of {} rows of {} tokens; "
      "give more data, lower training.global_batch_size or training.seq_len, or let it repeat with "
      "--dataloader.infinite",
      trainer.accumulation_steps, trainer.config().training.local_batch_size,
      trainer.config().training.seq_len);
}

int stop_for_signal(const Trainer& trainer, int signal) {
  log_warning("Stopped by {} after step {}. The weights of this run are not saved.", signal_name(signal),
              trainer.step);
  return signal_exit_code(signal);
}

}  // namespace

int train(Trainer& trainer) {
  const int64_t first_step = trainer.step, last_step = trainer.config().training.steps;
  const LossFunction loss_of = loss_function(trainer);
  const InterruptGuard interrupt;
  Progress progress(first_step, last_step);
  log_info("Training starts at step {}", first_step + 1);

  trainer.metrics->start();
  bool out_of_data = false;
  while (trainer.step < last_step && interrupt.signal() == 0) {
    out_of_data = !train_step(trainer, loss_of);
    if (out_of_data) break;
    if (trainer.step == last_step) save_last(trainer);
    validate_if_due(trainer, loss_of);
    progress.update(trainer.step);
  }
  progress.clear();

  if (trainer.step < last_step && interrupt.signal() != 0)
    return stop_for_signal(trainer, interrupt.signal());
  if (out_of_data) {
    log_warning("Ran out of data; last step was canceled.");
    if (trainer.step == first_step) refuse_too_little_data(trainer);
    save_last(trainer);
  }
  log_info("Training completed");
  return 0;
}

}  // namespace titan
