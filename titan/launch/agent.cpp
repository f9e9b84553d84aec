#include "titan/launch/agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/launch/node_link.h"

namespace titan {
namespace {

/// The signals that a launcher handles, as something to read.
OwnedFd open_signals(const TorchrunOptions& options) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  for (const int signal : options.signals) {
    struct sigaction old{};
    ::sigaction(signal, nullptr, &old);
    if (signal == SIGHUP && old.sa_handler == SIG_IGN) continue;  // started by nohup
    ::signal(signal, SIG_DFL);
    ::sigaddset(&set, signal);
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  OwnedFd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  check(signals.open(), "signals can be read");
  return signals;
}

class Agent {
 public:
  Agent(const TorchrunOptions& options, const WorkerGroup::Program& program)
      : workers_(options, program,
                 {.on_success = [this] { report("done"); },
                  .on_failure = [this](const Failure& failure) { report("failed", &failure); },
                  .on_stopped = [this](const std::optional<Failure>& failure) { on_stopped(failure); }},
                 loop_),
        signals_(open_signals(options)),
        link_(make_node_link(options,
                             {.on_message = [this](const Json& message) { on_message(message); },
                              .on_error = [this](const std::string& why) { give_up(why); }},
                             loop_)) {
    loop_.watch(signals_.get(), POLLIN, [this] { read_signals(); });
  }

  int run() {
    while (!finished_) loop_.run_once();
    link_->close();
    if (ending_signal_ != 0) return 128 + ending_signal_;
    if (!error_.empty()) throw ValueError("{}", error_);
    return 0;
  }

 private:
  void report(const char* type, const Failure* failure = nullptr) {
    Json message = Json::object();
    message.append_member("type", type);
    if (failure != nullptr) message.append_member("failure", failure->to_json());
    link_->report(message);
  }

  void on_message(const Json& message) {
    if (ending_) return;
    const std::string& type = message["type"].as_string();
    if (type == "start") workers_.start(Assignment::from_json(message["assignment"]));
    if (type == "stop") workers_.stop(SIGTERM);
    if (type != "end") return;
    const Json* failure = message.find("failure");
    if (failure != nullptr) return give_up(Failure::from_json(*failure).describe());
    ending_ = finished_ = true;  // what follows is only the connection's end
  }

  /// Stops the workers and ends with an error.
  void give_up(const std::string& why) {
    if (ending_) return;
    ending_ = true;
    error_ = why;
    workers_.stop(SIGTERM);
  }

  void on_stopped(const std::optional<Failure>& failure) {
    if (!ending_) return report("stopped", failure ? &*failure : nullptr);
    finished_ = true;
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) {
        workers_.check_children();
      } else if (ending_signal_ == 0) {
        end_by_signal(signal);
      } else {
        workers_.kill_now();  // the second time is meant
      }
    }
  }

  void end_by_signal(int signal) {
    log_warning("{}: passing it on to the workers", name_of_signal(signal));
    ending_signal_ = signal;
    ending_ = true;
    Json message = Json::object();
    message.append_member("type", "leaving");
    message.append_member("message", format("its launcher was ended by {}", name_of_signal(signal)));
    link_->report(message);
    workers_.stop(signal);
  }

  EventLoop loop_;
  WorkerGroup workers_;
  OwnedFd signals_;
  std::unique_ptr<NodeLink> link_;
  bool ending_ = false, finished_ = false;
  int ending_signal_ = 0;
  std::string error_;
};

}  // namespace

int run_launcher(const TorchrunOptions& options, const WorkerGroup::Program& program) {
  return Agent(options, program).run();
}

}  // namespace titan
