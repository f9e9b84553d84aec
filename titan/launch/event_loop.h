#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>

namespace titan {

using Clock = std::chrono::steady_clock;

/// Waits for file descriptors and points in time in one thread, and calls what was asked for. It sleeps
/// whenever there is nothing to do.
class EventLoop {
 public:
  using Handler = std::function<void()>;

  /// Calls `handler` whenever `fd` can be read (POLLIN) or written (POLLOUT), or has failed. Replaces an
  /// earlier watch of `fd`.
  void watch(int fd, short events, Handler handler);
  void unwatch(int fd) { watches_.erase(fd); }

  /// Calls `handler` once, at `time`. The number is for cancel().
  int64_t at(Clock::time_point time, Handler handler);
  void cancel(int64_t timer) { timers_.erase(timer); }

  /// Calls `handler` before the loop waits again.
  void post(Handler handler) { posted_.push_back(std::move(handler)); }

  /// Calls what was posted, and what that posts, without waiting.
  void finish_posted() {
    while (run_posted()) {
    }
  }

  /// Waits for the next events and handles them. Throws what handlers throw.
  void run_once();

 private:
  struct Watch {
    short events;
    int64_t number;  ///< tells a descriptor from an earlier one of the same number
    Handler handler;
  };
  struct Timer {
    Clock::time_point time;
    Handler handler;
  };

  bool run_posted();
  bool run_timers();
  int wait_time() const;

  std::map<int, Watch> watches_;
  std::map<int64_t, Timer> timers_;
  std::deque<Handler> posted_;
  int64_t next_number_ = 1;
};

}  // namespace titan
