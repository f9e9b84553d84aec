#include "titan/train/profiler.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <optional>
#include <set>

#include "titan/base/clock.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"
#include "titan/ops/profile_range.h"

namespace titan {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

torch::profiler::impl::ProfilerConfig tracing_config() {
  constexpr bool kInputShapes = true;
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO, kInputShapes);
}

std::set<ActivityType> traced_activities() {
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (at::hasCUDA()) activities.insert(ActivityType::CUDA);
  return activities;
}

}  // namespace

ProfilerAction profiler_action(const ProfilerConfig& config, int64_t step) {
  step -= config.profiler_skip_first.value_or(0);
  if (step < 0) return ProfilerAction::none;
  const int64_t warmup = config.profiler_warmup, cycle = config.profile_freq;
  const int64_t wait = cycle - warmup - config.profiler_active;
  if (config.profiler_skip_first_wait.value_or(0) != 0) step += wait;
  const int64_t repeat = config.profiler_repeat.value_or(0);
  if (repeat > 0 && step >= repeat * cycle) return ProfilerAction::none;
  const int64_t place = step % cycle;
  if (place < wait) return ProfilerAction::none;
  if (place < wait + warmup) return ProfilerAction::warmup;
  return place < cycle - 1 ? ProfilerAction::record : ProfilerAction::record_and_save;
}

struct Profiler::Impl {
  enum class State { idle, ready, recording };

  const ProfilerConfig config;
  const std::filesystem::path folder;
  const int64_t rank;
  State state = State::idle;
  ProfilerAction action = ProfilerAction::none;
  int64_t last_step = 0, recorded_steps = 0;
  std::optional<ProfileRange> step_range = {};

  template <class... Args>
  void say(std::string_view fmt, const Args&... args) const {
    if (rank == 0) log_info(fmt, args...);
  }

  void begin_step(int64_t step) {
    action = profiler_action(config, step);
    if (action == ProfilerAction::none) return;
    if (state == State::idle) {
      kineto::prepareProfiler(tracing_config(), traced_activities());
      state = State::ready;
    }
    if (action == ProfilerAction::warmup) return;
    if (state == State::ready) start();
    // torch's name, by which TensorBoard finds the steps.
    step_range.emplace(format("ProfilerStep#{}", step));
  }

  void start() {
    kineto::enableProfiler(tracing_config(), traced_activities());
    state = State::recording;
    recorded_steps = 0;
  }

  /// What has been recorded; nothing when there is none.
  std::unique_ptr<kineto::ProfilerResult> stop() {
    step_range.reset();
    if (state == State::idle) return nullptr;
    if (state == State::ready) start();  // what was made ready can only be taken back by a stop
    state = State::idle;
    return kineto::disableProfiler();
  }

  void save(int64_t step) {
    const auto path = folder / format("iteration_{}", step) / format("rank{}_trace.json", rank);
    say("Dumping profiler traces at step {}", step);
    const Stopwatch watch;
    const auto result = stop();
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (!error) result->save(path.string());
    if (error || !std::filesystem::exists(path)) {
      log_warning("the profiler could not write {}; training goes on", path.string());
      return;
    }
    say("Finished dumping profiler traces in {} seconds", fixed(watch.seconds(), 2));
  }
};

Profiler::Profiler(const ProfilerConfig& config, const std::filesystem::path& dump_folder, int64_t rank,
                   int64_t step) {
  if (!config.enable_profiling) return;
  impl_.reset(new Impl{.config = config, .folder = dump_folder / config.save_traces_folder, .rank = rank});
  impl_->say("Profiling active. Traces will be saved at {}", impl_->folder.string());
  require_writable_folder(impl_->folder, "profiler.save_traces_folder");
  impl_->begin_step(step);
}

Profiler::~Profiler() {
  if (impl_) impl_->stop();
}

void Profiler::step(int64_t step) {
  if (!impl_) return;
  impl_->step_range.reset();
  if (impl_->state == Impl::State::recording) ++impl_->recorded_steps;
  if (impl_->action == ProfilerAction::record_and_save) impl_->save(step);
  impl_->last_step = step;
  impl_->begin_step(step);
}

void Profiler::finish() {
  if (!impl_) return;
  if (impl_->state == Impl::State::recording && impl_->recorded_steps > 0) {
    impl_->save(impl_->last_step);
  } else {
    impl_->stop();
  }
  impl_->action = ProfilerAction::none;
}

}  // namespace titan
