#include "titan/train/train_loop.h"

#include <ATen/ops/from_blob.h>

#include <chrono>

#include "titan/base/clock.h"
#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/distributed/tensor_parallel.h"
#include "titan/train/hf_model.h"
#include "titan/train/interrupt.h"
#include "titan/train/phase.h"
#include "titan/train/profiler.h"
#include "titan/train/progress.h"
#include "titan/train/train_step.h"

namespace titan {
namespace {

/// "0:01:40", as Python prints a time span.
std::string clock_text(int64_t seconds) {
  const auto two = [](int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  return format("{}:{}:{}", seconds / 3600, two(seconds / 60 % 60), two(seconds % 60));
}

// On the CPU a view: the batch outlives the tensors, backward has run when the loss function's caller lets go
// of it.
at::Tensor on_device(const std::vector<int64_t>& values, const Batch& batch, c10::Device device) {
  return at::from_blob(const_cast<int64_t*>(values.data()), {batch.rows, batch.seq_len}, at::kLong)
      .to(device);
}

LossFunction loss_function(const TrainingRun& run) {
  check(run.model_parts.size() == 1, "a run without pipeline stages has one model part");
  return
      [model = run.model_parts.front(), device = run.device.device](const Batch& batch, double normalizer) {
        return model->loss({.input_ids_BT = on_device(batch.input_ids, batch, device),
                            .positions_BT = on_device(batch.positions, batch, device),
                            .labels_BT = on_device(batch.labels, batch, device)},
                           normalizer);
      };
}

/// This rank's rows of a step. Once they are read to the end it goes on with padding, because other ranks may
/// still have rows: the step then takes the same global batch that one rank alone would take.
struct MicroBatches {
  std::vector<Batch> batches;
  StepOffer offer;
};

MicroBatches fetch(TrainingRun& run) {
  const Phase phase("data loading");
  MicroBatches fetched;
  for (int64_t i = 0; i < run.accumulation_steps; ++i) {
    const Stopwatch watch;
    std::optional<Batch> batch = run.data->next();
    fetched.offer.has_data = fetched.offer.has_data || batch.has_value();
    if (!batch) batch = run.data->padding_batch();
    run.metrics->add_batch(watch.seconds(), batch->rows * batch->seq_len);
    fetched.offer.valid_tokens += batch->valid_tokens();
    fetched.batches.push_back(std::move(*batch));
  }
  return fetched;
}

void log_step(TrainingRun& run, const StepLoss& loss, double lr_factor) {
  if (!run.metrics->should_log(run.step)) return;
  std::vector<Scalar> extra = run.optimizer->learning_rates(lr_factor);
  if (run.sharded) {
    const FsdpMemory& memory = run.sharded->memory();
    extra.emplace_back("memory/peak_gathered_weights(bytes)", static_cast<double>(memory.peak_unsharded));
    extra.emplace_back("memory/peak_whole_gradients(bytes)",
                       static_cast<double>(memory.peak_unsharded_gradients));
  }
  run.metrics->log_step({.step = run.step,
                         .avg_loss = loss.avg_loss,
                         .max_loss = loss.max_loss,
                         .grad_norm = loss.grad_norm,
                         .tokens_seen = run.tokens_seen},
                        extra);
}

/// How a step ended. Every rank sees the same.
struct StepEnd {
  bool out_of_data = false;  ///< nobody had rows: nothing was done
  int signal = 0;            ///< somebody was asked to stop before the step: nothing was done
};

void take_step(TrainingRun& run, const LossFunction& loss_of, const MicroBatches& fetched,
               int64_t valid_tokens) {
  const int64_t step = run.step + 1;
  const double lr_factor = run.lr_scheduler->factor(step - 1);
  const auto parameters = run.parameters();
  RankLoss mine = accumulate_gradients(fetched.batches, loss_of, valid_tokens, run.sharded.get());
  sum_partial_gradients(parameters, run.world->group(Axis::tp));
  mine.squared_norm = counted_squared_norm(parameters, run.world->mesh());
  const StepLoss loss = agree_on_loss(*run.world, mine);
  update(*run.optimizer, loss, run.config().training.max_norm, lr_factor, step);

  run.step = step;
  for (const Batch& batch : fetched.batches) run.tokens_seen += batch.rows * batch.seq_len * run.dp();
  run.metrics->count_step(step);
  log_step(run, loss, lr_factor);
}

StepEnd train_step(TrainingRun& run, const LossFunction& loss_of, int signal) {
  MicroBatches fetched = fetch(run);
  fetched.offer.signal = signal;
  const StepPlan plan = agree_on_step(*run.world, fetched.offer);
  if (plan.signal != 0 || !plan.has_data) return {.out_of_data = !plan.has_data, .signal = plan.signal};
  if (plan.valid_tokens == 0) {
    throw CommonError("no label of step {} counts (all are -100); check the data set", run.step + 1);
  }
  take_step(run, loss_of, fetched, plan.valid_tokens);
  return {};
}

/// After its first step a process waits less long for the others: nobody compiles or loads any more.
void tighten_timeout(TrainingRun& run) {
  if (run.launch.world_size == 1) return;
  const std::chrono::seconds timeout(run.config().comm.train_timeout_seconds);
  log_info("Synchronizing and adjusting timeout for all ProcessGroups to {}", clock_text(timeout.count()));
  run.world->set_timeout(timeout);
}

void validate_if_due(TrainingRun& run, const LossFunction& loss_of) {
  if (!run.validator || !run.validator->is_due(run.step)) return;
  const Phase phase("validation");
  const Stopwatch watch;
  const ValidationResult result = run.validator->run(loss_of, *run.world);
  run.metrics->log_validation(run.step, result.loss, result.num_tokens, watch.seconds());
}

// One rank writes while the others wait: a slow disk may take longer than a step of training.
void save_last(TrainingRun& run) {
  const Phase phase("saving");
  run.world->set_timeout(std::chrono::seconds(run.config().comm.init_timeout_seconds));
  run.checkpoints->save_last(run.step, hf_model(*run.model_parts.front(), run.config().model_spec));
  run.metrics->count_other("saving");
}

[[noreturn]] void refuse_too_little_data(const TrainingRun& run) {
  throw CommonError(
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

void warn_of_no_trace(const ProfilerConfig& profiler, int64_t steps) {
  const int64_t before =
      profiler.profiler_skip_first.value_or(0) + profiler.profile_freq - profiler.profiler_active;
  if (!profiler.enable_profiling || steps > before || profiler.profiler_skip_first_wait.value_or(0) != 0)
    return;
  log_warning(
      "No trace will be written: the first one records step {}, the run has {} (profiler.profile_freq)",
      before + 1, steps);
}

}  // namespace

int train(TrainingRun& run) {
  const int64_t first_step = run.step, last_step = run.config().training.steps;
  const LossFunction loss_of = loss_function(run);
  const InterruptGuard interrupt;
  Progress progress(first_step, last_step);
  Profiler profiler(run.config().profiler, run.config().dump_folder, run.launch.rank, first_step);
  warn_of_no_trace(run.config().profiler, last_step - first_step);
  log_info("Training starts at step {}", first_step + 1);

  run.metrics->start();
  StepEnd end;
  while (run.step < last_step) {
    end = train_step(run, loss_of, interrupt.signal());
    if (end.out_of_data || end.signal != 0) break;
    if (run.step == first_step + 1) tighten_timeout(run);
    if (run.step == last_step) save_last(run);
    validate_if_due(run, loss_of);
    profiler.step(run.step);
    progress.update(run.step);
  }
  progress.clear();
  profiler.finish();

  if (end.signal != 0) return stop_for_signal(run, end.signal);
  if (end.out_of_data) {
    log_warning("Ran out of data; last step was canceled.");
    if (run.step == first_step) refuse_too_little_data(run);
    save_last(run);
  }
  log_info("Training completed");
  return 0;
}

}  // namespace titan
