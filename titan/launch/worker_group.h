#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "titan/launch/event_loop.h"
#include "titan/launch/failure.h"
#include "titan/launch/log_folder.h"
#include "titan/launch/log_tee.h"
#include "titan/launch/options.h"
#include "titan/launch/process.h"
#include "titan/launch/worker_env.h"

namespace titan {

/// The workers of one node: started, watched and stopped together.
class WorkerGroup {
 public:
  /// What is started, before the local rank is put into `args`.
  struct Program {
    std::string file;
    std::vector<std::string> args;
  };
  struct Events {
    std::function<void()> on_success;                        ///< every worker has ended with exit code 0
    std::function<void(Failure)> on_failure;                 ///< the first one has not
    std::function<void(std::optional<Failure>)> on_stopped;  ///< after stop(): all have ended
  };

  /// Throws ValueError where the folder for the workers' files cannot be made.
  WorkerGroup(const TorchrunOptions& options, Program program, Events events, EventLoop& loop);
  /// Kills what still runs.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  /// Starts the workers of one attempt. Throws ValueError.
  void start(const Assignment& assignment);
  /// Sends `signal` to the workers and what they have started; SIGKILL after the grace. on_stopped follows.
  void stop(int signal);
  /// SIGKILL at once, to those that stop() has not ended yet.
  void kill_now();
  /// Looks which children have ended; call it on SIGCHLD.
  void check_children();

 private:
  struct Worker {
    int64_t local_rank = 0;
    pid_t pid = 0;
    bool running = false;
    int exit_code = 0, signal = 0;
    double end_time = 0;
    bool failed_by_itself = false;  ///< ended badly before anything was stopped
    std::unique_ptr<TeedStream> out, err;
    bool err_is_in_file = false;
  };

  void start_worker(Worker& worker, const Assignment& assignment);
  int place_stream(Worker& worker, bool is_err, const std::string& prefix, OwnedFd& opened);
  void signal_groups(int signal);
  bool any_running() const;
  /// Ends what the workers left running, takes their last output, and forgets them.
  void finish_attempt();
  Failure failure_of(const Worker& worker) const;
  std::optional<Failure> first_failure() const;

  const TorchrunOptions& options_;
  Program program_;
  Events events_;
  EventLoop& loop_;
  GroupGuard guard_;
  LogFolder logs_;
  Consoles consoles_;
  std::vector<Worker> workers_;
  Assignment assignment_;
  bool stopping_ = false, reported_ = false;
  int64_t kill_timer_ = 0;
};

}  // namespace titan
