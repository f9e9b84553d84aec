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

LossFunction loss_function(const TrainingRun& run) {
  check(run.model_parts.size() == 1, "a run without pipeline stages has one model part");
  return [model = run.model_parts.front()](const Batch& batch, double normalizer) {
    return model->loss({.input_ids_BT = view(batch.input_ids, batch),
                        .positions_BT = view(batch.positions, batch),
                        .labels_BT = view(batch.labels, batch)},
                       normalizer);
  };
}

/// All micro-batches of a step, or nothing when the data ends before the last of them.
std::optional<std::vector<Batch>> fetch(TrainingRun& run) {
  std::vector<Batch> micro_batches;
  for (int64_t i = 0; i < run.accumulation_steps; ++i) {
    const auto start = Clock::now();
    std::optional<Batch> batch = run.data->next();
    if (!batch) return std::nullopt;
    run.metrics->add_batch(seconds_since(start), batch->rows * batch->seq_len);
    micro_batches.push_back(std::move(*batch));
  }
  return micro_batches;
}

void log_step(TrainingRun& run, const StepLoss& loss, double grad_norm, double lr_factor) {
  if (!run.metrics->should_log(run.step)) return;
  run.metrics->log_step({.step = run.step,
                         .avg_loss = loss.avg_loss,
                         .max_loss = loss.avg_loss,
                         .grad_norm = grad_norm,
                         .tokens_seen = run.tokens_seen},
                        run.optimizer->learning_rates(lr_factor));
}

/// One optimizer step; false when the data has ended, and then nothing is changed.
bool train_step(TrainingRun& run, const LossFunction& loss_of) {
  const auto micro_batches = fetch(run);
  if (!micro_batches) return false;
  const int64_t step = run.step + 1;
  const double lr_factor = run.lr_scheduler->factor(step - 1);
  const StepLoss loss = accumulate_gradients(*micro_batches, loss_of);
  const double grad_norm =
      update(*run.optimizer, loss.avg_loss, run.config().training.max_norm, lr_factor, step);

  run.step = step;
  for (const Batch& batch : *micro_batches) run.tokens_seen += batch.rows * batch.seq_len;
  run.metrics->count_step();
  log_step(run, loss, grad_norm, lr_factor);
  return true;
}

void validate_if_due(TrainingRun& run, const LossFunction& loss_of) {
  if (!run.validator || !run.validator->is_due(run.step)) return;
  const auto start = Clock::now();
  const ValidationResult result = run.validator->run(loss_of);
  run.metrics->log_validation(run.step, result.loss, result.num_tokens, seconds_since(start));
}

void save_last(const TrainingRun& run) {
  run.checkpoints->save_last(run.step, hf_model(*run.model_parts.front(), run.config().model_spec));
}

[[noreturn]] void refuse_too_little_data(const TrainingRun& run) {
  throw ValueError(
      "dataloader: the data set ends before the first step has its {} batch(es) of {} rows of {} tokens; "
      "give more data, lower training.global_batch_size or training.seq_len, or let it repeat with "
      "--dataloader.infinite",
      run.accumulation_steps, run.config().training.local_batch_size, run.config().training.seq_len);
}

int stop_for_signal(const TrainingRun& run, int signal) {
  log_warning("Stopped by {} after step {}. The weights of this run are not saved.", signal_name(signal),
              run.step);
  return signal_exit_code(signal);
}

}  // namespace

int train(TrainingRun& run) {
  const int64_t first_step = run.step, last_step = run.config().training.steps;
  const LossFunction loss_of = loss_function(run);
  const InterruptGuard interrupt;
  Progress progress(first_step, last_step);
  log_info("Training starts at step {}", first_step + 1);

  run.metrics->start();
  bool out_of_data = false;
  while (run.step < last_step && interrupt.signal() == 0) {
    out_of_data = !train_step(run, loss_of);
    if (out_of_data) break;
    if (run.step == last_step) save_last(run);
    validate_if_due(run, loss_of);
    progress.update(run.step);
  }
  progress.clear();

  if (run.step < last_step && interrupt.signal() != 0) return stop_for_signal(run, interrupt.signal());
  if (out_of_data) {
    log_warning("Ran out of data; last step was canceled.");
    if (run.step == first_step) refuse_too_little_data(run);
    save_last(run);
  }
  log_info("Training completed");
  return 0;
}

}  // namespace titan
