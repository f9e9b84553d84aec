#include "titan/launch/worker_group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "titan/base/clock.h"
#include "titan/base/error.h"
#include "titan/base/log.h"

namespace titan {

WorkerGroup::WorkerGroup(const TorchrunOptions& options, Program program, Events events, EventLoop& loop)
    : options_(options),
      program_(std::move(program)),
      events_(std::move(events)),
      loop_(loop),
      logs_(options),
      consoles_(loop) {}

WorkerGroup::~WorkerGroup() {
  signal_groups(SIGKILL);
  for (Worker& worker : workers_) {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(worker.pid), &info, WEXITED | WNOWAIT);
  }
  finish_attempt();
  consoles_.flush();
}

void WorkerGroup::start(const Assignment& assignment) {
  finish_attempt();
  assignment_ = assignment;
  stopping_ = reported_ = false;
  logs_.start_attempt(assignment.restart_count, options_.local_world_size);
  workers_.reserve(static_cast<size_t>(options_.local_world_size));
  for (int64_t rank = 0; rank < options_.local_world_size; ++rank) {
    Worker worker;
    worker.local_rank = rank;
    start_worker(worker, assignment);
    workers_.push_back(std::move(worker));
  }
}

int WorkerGroup::place_stream(Worker& worker, bool is_err, const std::string& prefix, OwnedFd& opened) {
  const int64_t rank = worker.local_rank;
  const bool teed = is_err ? options_.tee.err(rank) : options_.tee.out(rank);
  const bool redirected = is_err ? options_.redirects.err(rank) : options_.redirects.out(rank);
  const bool shown = options_.local_ranks_filter.empty() || options_.local_ranks_filter.contains(rank);
  const std::string file = logs_.worker_file(rank, is_err ? "stderr.log" : "stdout.log");
  if (is_err) worker.err_is_in_file = !file.empty() && (teed || redirected);
  if (teed && shown) {
    std::unique_ptr<TeedStream>& stream = is_err ? worker.err : worker.out;
    stream = std::make_unique<TeedStream>(
        TeedStream::Options{
            .prefix = prefix,
            .file = file,
            .filters = logs_.exists() ? (is_err ? options_.stderr_filters : options_.stdout_filters)
                                      : std::vector<std::string>{},
            .filtered_file = logs_.attempt_file(is_err ? "filtered_stderr.log" : "filtered_stdout.log")},
        is_err ? consoles_.err : consoles_.out, loop_);
    return stream->worker_end().get();
  }
  if (!teed && !redirected && shown) return is_err ? STDERR_FILENO : STDOUT_FILENO;
  opened = open_output(!file.empty() && (teed || redirected) ? file : "/dev/null");
  return opened.get();
}

void WorkerGroup::start_worker(Worker& worker, const Assignment& assignment) {
  const std::string prefix = line_prefix(options_, assignment, worker.local_rank);
  OwnedFd out_file, err_file;
  ProgramStart start;
  start.file = program_.file;
  for (const std::string& arg : program_.args) {
    start.args.push_back(substitute(arg, "local_rank", format("{}", worker.local_rank)));
  }
  start.environment = worker_environment(options_, assignment, worker.local_rank,
                                         logs_.worker_file(worker.local_rank, "error.json"));
  start.out = place_stream(worker, /*is_err=*/false, prefix, out_file);
  start.err = place_stream(worker, /*is_err=*/true, prefix, err_file);
  worker.pid = start_program(start);
  worker.running = true;
  guard_.add(worker.pid);
  for (const auto& stream : {&worker.out, &worker.err}) {
    if (*stream) (*stream)->worker_end().reset();
  }
}

bool WorkerGroup::any_running() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.running; });
}

void WorkerGroup::check_children() {
  if (workers_.empty()) return;
  const double now = wall_time();
  for (Worker& worker : workers_) {
    // The ended process stays until finish_attempt(), so that its group's number belongs to nobody else.
    siginfo_t info{};
    if (!worker.running) continue;
    if (::waitid(P_PID, static_cast<id_t>(worker.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
    if (info.si_pid == 0) continue;
    worker.running = false;
    worker.end_time = now;
    (info.si_code == CLD_EXITED ? worker.exit_code : worker.signal) = info.si_status;
    worker.failed_by_itself = info.si_status != 0 && !stopping_;
  }
  if (!reported_ && !stopping_) {
    const std::optional<Failure> failure = first_failure();
    const bool success = !failure && !any_running();
    reported_ = failure || success;
    if (failure) return events_.on_failure(*failure);
    if (success) {
      finish_attempt();
      return events_.on_success();
    }
  }
  if (stopping_ && !any_running()) {
    loop_.cancel(kill_timer_);
    const std::optional<Failure> failure = first_failure();
    finish_attempt();
    stopping_ = false;
    events_.on_stopped(failure);
  }
}

void WorkerGroup::signal_groups(int signal) {
  for (const Worker& worker : workers_) {
    if (worker.running || signal == SIGKILL) ::kill(-worker.pid, signal);
  }
}

void WorkerGroup::stop(int signal) {
  if (stopping_) return;
  stopping_ = reported_ = true;
  signal_groups(signal);
  kill_timer_ = loop_.at(Clock::now() + options_.shutdown_timeout, [this, signal] {
    const auto left =
        std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.running; });
    log_warning("{} workers still run {} s after {}: killing them", left, options_.shutdown_timeout.count(),
                name_of_signal(signal));
    kill_now();
  });
  loop_.post([this] {
    if (workers_.empty() && stopping_) {
      loop_.cancel(kill_timer_);
      stopping_ = false;
      events_.on_stopped(std::nullopt);
    } else {
      check_children();
    }
  });
}

void WorkerGroup::kill_now() { signal_groups(SIGKILL); }

void WorkerGroup::finish_attempt() {
  signal_groups(SIGKILL);
  for (Worker& worker : workers_) {
    guard_.remove(worker.pid);
    ::waitpid(worker.pid, nullptr, 0);
    if (worker.out) worker.out->finish();
    if (worker.err) worker.err->finish();
  }
  workers_.clear();
}

Failure WorkerGroup::failure_of(const Worker& worker) const {
  Failure failure{.rank = assignment_.first_rank + worker.local_rank,
                  .local_rank = worker.local_rank,
                  .host = host_name(),
                  .pid = worker.pid,
                  .exit_code = worker.exit_code,
                  .signal = worker.signal,
                  .time = worker.end_time,
                  .of_a_peer = false,
                  .stopped = !worker.failed_by_itself && worker.signal == SIGTERM,
                  .message = "",
                  .folder = logs_.kept() ? logs_.worker_file(worker.local_rank, "") : "",
                  .num_more = 0};
  if (const auto file = read_error_file(logs_.worker_file(worker.local_rank, "error.json"))) {
    failure.message = file->message;
    failure.of_a_peer = file->of_a_peer;
    // Python cuts its time to whole seconds, which would put a worker before its cause.
    const double time = file->time.value_or(failure.time);
    const bool whole = time == static_cast<double>(static_cast<int64_t>(time));
    failure.time = std::min(failure.time, whole ? time + 1 : time);
  }
  if (failure.message.empty() && worker.err_is_in_file) {
    if (worker.err) worker.err->take_available();
    failure.message = last_lines(logs_.worker_file(worker.local_rank, "stderr.log"));
  }
  return failure;
}

std::optional<Failure> WorkerGroup::first_failure() const {
  std::vector<Failure> failures;
  for (const Worker& worker : workers_) {
    if (worker.running) continue;
    // One that was stopped while it reported its own failure counts too.
    const bool reported = worker.exit_code + worker.signal != 0 &&
                          read_error_file(logs_.worker_file(worker.local_rank, "error.json")).has_value();
    if (worker.failed_by_itself || reported) failures.push_back(failure_of(worker));
  }
  if (failures.empty()) return std::nullopt;
  Failure first = *std::min_element(failures.begin(), failures.end(), is_earlier);
  first.num_more = static_cast<int64_t>(failures.size()) - 1;
  return first;
}

}  // namespace titan
