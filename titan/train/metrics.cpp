#include "titan/train/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>
#include <system_error>

#include "titan/base/clock.h"
#include "titan/base/error.h"
#include "titan/base/json.h"
#include "titan/base/log.h"
#include "titan/base/strings.h"
#include "titan/train/agreement.h"

namespace titan {
namespace {

// TensorBoard runs are told apart by the minute they began in, as the reference names them.
std::string minute_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M", &local);
  return text;
}

void add_memory(std::vector<Scalar>& scalars, const std::string& prefix, const MemoryStats& memory) {
  scalars.emplace_back(prefix + "memory/max_active(GiB)", memory.max_active_gib);
  scalars.emplace_back(prefix + "memory/max_active(%)", memory.max_active_pct);
  scalars.emplace_back(prefix + "memory/max_reserved(GiB)", memory.max_reserved_gib);
  scalars.emplace_back(prefix + "memory/max_reserved(%)", memory.max_reserved_pct);
}

}  // namespace

JsonLinesWriter::JsonLinesWriter(const std::filesystem::path& path) : path_(path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (!error) out_.open(path, std::ios::binary | std::ios::app);
  if (error || !out_) {
    throw ValueError(
        "metrics file {} cannot be written ({}); choose another with --dump_folder or "
        "--metrics.save_jsonl_file",
        path.string(), error ? error.message() : std::strerror(errno));
  }
}

void JsonLinesWriter::add_scalars(int64_t step, std::span<const Scalar> scalars) {
  Json line = Json::object();
  line.set("step", step);
  line.set("time", wall_time());
  for (const auto& [tag, value] : scalars) line.set(tag, value);
  out_ << line.dump() << '\n' << std::flush;
  if (!out_)
    warn_once(
        format("{}: cannot be written any more (disk full?); later metrics are missing", path_.string()));
}

MetricsProcessor::MetricsProcessor(const MetricsConfig& config, MetricsContext context)
    : config_(config), context_(std::move(context)), colors_(Colors::make(!config.disable_color_printing)) {
  check(context_.world != nullptr, "metrics know the ranks");
  const int64_t rank = context_.world->launch().rank;
  if (rank != 0 && !config.save_for_all_ranks) return;
  if (config.save_for_all_ranks) context_.dump_folder /= format("rank_{}", rank);
  if (config.enable_tensorboard) {
    tensorboard_.emplace(context_.dump_folder / config.save_tb_folder / minute_stamp());
    log_info("TensorBoard logging enabled. Logs will be saved at {}",
             tensorboard_->path().parent_path().string());
  }
  if (config.enable_jsonl) json_lines_.emplace(context_.dump_folder / config.save_jsonl_file);
}

bool MetricsProcessor::should_log(int64_t step) const { return step == 1 || step % config_.log_freq == 0; }

void MetricsProcessor::add_batch(double loading_seconds, int64_t num_tokens) {
  loading_seconds_ += loading_seconds;
  num_tokens_ += num_tokens;
  ++num_batches_;
}

void MetricsProcessor::count_step(int64_t step) {
  ++num_steps_;
  activity_.end_step(step, context_.world->counters());
}

void MetricsProcessor::count_other(std::string_view what) {
  activity_.end_of(what, context_.world->counters());
}

void MetricsProcessor::log_step(const StepResult& result, std::span<const Scalar> extra) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - window_start_).count() - excluded_seconds_;
  // A device's share, as the reference counts: the ranks of one model part divide the work on their tokens.
  const double share = static_cast<double>(context_.world->mesh().dims().tp);
  const double tps = static_cast<double>(num_tokens_) / (seconds * share);
  const double flops = static_cast<double>(context_.flops_per_token) * tps;
  const StepReport report{.step = result.step,
                          .loss = result.avg_loss,
                          .grad_norm = result.grad_norm,
                          .memory = peak_memory(context_.device),
                          .tokens_per_second = tps,
                          .tflops = flops / 1e12,
                          .mfu = 100.0 * flops / context_.peak.flops};

  std::vector<Scalar> scalars = {
      {"loss_metrics/global_avg_loss", result.avg_loss},
      {"loss_metrics/global_max_loss", result.max_loss},
      {"grad_norm", result.grad_norm},
      {"n_tokens_seen", static_cast<double>(result.tokens_seen)},
      {"throughput(tps)", tps},
      {"tflops", report.tflops},
      {"mfu(%)", *report.mfu},
      {"time_metrics/end_to_end(s)", seconds / static_cast<double>(std::max<int64_t>(num_steps_, 1))},
      {"time_metrics/data_loading(s)",
       loading_seconds_ / static_cast<double>(std::max<int64_t>(num_batches_, 1))},
      {"time_metrics/data_loading(%)", 100.0 * loading_seconds_ / seconds},
  };
  add_memory(scalars, "", report.memory);
  scalars.emplace_back("memory/num_alloc_retries", static_cast<double>(report.memory.num_alloc_retries));
  scalars.emplace_back("memory/num_ooms", static_cast<double>(report.memory.num_ooms));
  scalars.insert(scalars.end(), extra.begin(), extra.end());
  std::ranges::copy(activity_.take_window(), std::back_inserter(scalars));
  log_info("{}", step_line(report, colors_));
  if (context_.world->launch().world_size > 1) add_rank_scalars(scalars, tps, seconds, report.memory);
  write(result.step, scalars);
  reset_peak_memory(context_.device);

  start_window();
  excluded_seconds_ = loading_seconds_ = 0;
  num_tokens_ = num_batches_ = num_steps_ = 0;
}

void MetricsProcessor::start() {
  start_window();
  activity_.start(carried_before_);
}

void MetricsProcessor::start_window() {
  window_start_ = Clock::now();
  carried_before_ = context_.world->counters();
}

void MetricsProcessor::add_rank_scalars(std::vector<Scalar>& scalars, double tps, double seconds,
                                        const MemoryStats& memory) {
  const GroupCounters carried = context_.world->counters();
  const double waited = carried.seconds - carried_before_.seconds;
  const auto ranks = gather_numbers(*context_.world, {tps, waited, loading_seconds_, memory.max_active_gib});
  double all_tps = 0, all_waited = 0, most_loading = 0;
  size_t fullest = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    all_tps += ranks[rank][0];
    all_waited += ranks[rank][1];
    most_loading = std::max(most_loading, ranks[rank][2]);
    if (ranks[rank][3] > ranks[fullest][3]) fullest = rank;
  }
  const double steps = static_cast<double>(std::max<int64_t>(num_steps_, 1));
  const double mean_waited = all_waited / static_cast<double>(ranks.size());
  scalars.emplace_back("throughput_of_all_ranks(tps)", all_tps);
  scalars.emplace_back("time_metrics/communication(s)", mean_waited / steps);
  scalars.emplace_back("time_metrics/communication(%)", 100.0 * mean_waited / seconds);
  const auto per_step = [&](int64_t now, int64_t before) {
    return static_cast<double>(now - before) / steps;
  };
  scalars.emplace_back("communication/all_gather(bytes)",
                       per_step(carried.all_gather_bytes, carried_before_.all_gather_bytes));
  scalars.emplace_back("communication/reduce_scatter(bytes)",
                       per_step(carried.reduce_scatter_bytes, carried_before_.reduce_scatter_bytes));
  scalars.emplace_back("communication/all_reduce(bytes)",
                       per_step(carried.all_reduce_bytes, carried_before_.all_reduce_bytes));
  scalars.emplace_back("time_metrics/data_loading_of_slowest_rank(s)", most_loading / steps);
  scalars.emplace_back("memory/max_active_of_all_ranks(GiB)", ranks[fullest][3]);
  scalars.emplace_back("memory/rank_with_max_active", static_cast<double>(fullest));
  if (context_.world->launch().rank != 0) return;
  log_info("{} ranks: {} tps, in communication {}% of the time; rank {} has the most memory, {}GiB",
           ranks.size(), fixed_with_commas(all_tps, 0), fixed(100.0 * mean_waited / seconds, 1), fullest,
           fixed(ranks[fullest][3], 2));
}

void MetricsProcessor::log_validation(int64_t step, double loss, int64_t num_tokens, double seconds) {
  const MemoryStats memory = peak_memory(context_.device);
  const double tps =
      static_cast<double>(num_tokens) / (seconds * static_cast<double>(context_.world->mesh().dims().tp));
  std::vector<Scalar> scalars = {{"validation_metrics/loss", loss},
                                 {"validation_metrics/throughput(tps)", tps}};
  add_memory(scalars, "validation_metrics/", memory);
  write(step, scalars);
  log_info("{}", validate_line(step, loss, memory, tps, colors_));
  reset_peak_memory(context_.device);
  count_other(format("the validation after step {}", step));
  exclude(seconds);
}

void MetricsProcessor::write(int64_t step, std::span<const Scalar> scalars) {
  if (tensorboard_) tensorboard_->add_scalars(step, scalars);
  if (json_lines_) json_lines_->add_scalars(step, scalars);
}

}  // namespace titan
