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
/// reader's. Results come in order. An exception is the last result: every later call throws it again.
template <class T>
class Ahead {
 public:
  Ahead(size_t depth, std::function<T()> make) : depth_(depth), make_(std::move(make)) {
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

  T next() {
    if (depth_ == 0) return make_();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || error_; });
    if (ready_.empty()) std::rethrow_exception(error_);
    T result(std::move(ready_.front()));
    ready_.pop_front();
    changed_.notify_all();
    return result;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!error_) {
      changed_.wait(lock, [&] { return stop_ || ready_.size() < depth_; });
      if (stop_) return;
      lock.unlock();
      std::optional<T> result;
      std::exception_ptr error;
      try {
        result.emplace(make_());
      } catch (...) {  // every error belongs to the reader, who rethrows it
        error = std::current_exception();
      }
      lock.lock();
      if (result) ready_.push_back(std::move(*result));
      error_ = error;
      changed_.notify_all();
    }
  }

  const size_t depth_;
  std::function<T()> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace titan
