#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace titan {

/// Operations that run one after the other, in the order in which they were posted: by whoever waits for one,
/// unless the queue's thread is at it. The thread is made for the first one posted to it.
class OperationQueue {
 public:
  class Operation {
   public:
    /// For polling; what the operation wrote may be read when it is done.
    bool done() const;
    /// What it threw, once it is done.
    std::exception_ptr error() const;

   private:
    friend class OperationQueue;
    explicit Operation(OperationQueue& queue, std::function<void()> run)
        : queue_(queue), run_(std::move(run)) {}
    OperationQueue& queue_;
    std::function<void()> run_;
    bool done_ = false;
    std::exception_ptr error_;
  };

  OperationQueue() = default;
  /// Runs what is left. Errors of operations that nobody waited for are dropped.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  /// Hands the operation to the thread.
  std::shared_ptr<Operation> post(std::function<void()> run);

  /// Returns when the operation has run, after those before it; throws what it threw.
  void wait(const std::shared_ptr<Operation>& operation);

  /// Runs the operation on this thread, after those posted before.
  void run(std::function<void()> run);

 private:
  std::shared_ptr<Operation> push(std::function<void()> run);
  void run_next(std::unique_lock<std::mutex>& lock);
  void work();

  std::mutex mutex_;
  std::condition_variable changed_, posted_;
  std::deque<std::shared_ptr<Operation>> waiting_;
  bool running_ = false, closing_ = false;
  std::thread thread_;
};

}  // namespace titan
