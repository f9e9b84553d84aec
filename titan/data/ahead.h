#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace titan {

/// Calls `make` on a thread of its own, up to `depth` results ahead of the reader; with depth 0, on the
/// reader's. Results come in order. Nothing, or an exception, is the last result: every later call gives it
/// again.
template <class T>
class Ahead {
 public:
  Ahead(size_t depth, std::function<std::optional<T>()> make) : depth_(depth), make_(std::move(make)) {
    if (depth_ > 0) thread_ = std::thread([this] { run(); });
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;
  /// Waits for the result in the making.
  ~Ahead() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::optional<T> next() {
    if (depth_ == 0) return make_();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    std::optional<T> result(std::move(ready_.front()));
    ready_.pop_front();
    changed_.notify_all();
    return result;
  }

 private:
  void run() {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || ready_.size() < depth_; });
        if (stop_) return;
      }
      std::optional<T> result;
      std::exception_ptr error;
      try {
        result = make_();
      } catch (...) {  // every error belongs to the reader, who rethrows it
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      if (result) {
        ready_.push_back(std::move(*result));
      } else {
        ended_ = true;
        error_ = error;
      }
      changed_.notify_all();
      if (ended_) return;
    }
  }

  const size_t depth_;
  std::function<std::optional<T>()> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> ready_;
  std::exception_ptr error_;
  bool ended_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace titan
