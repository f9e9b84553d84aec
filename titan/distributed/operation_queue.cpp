#include "titan/distributed/operation_queue.h"

#include <utility>

namespace titan {

bool OperationQueue::Operation::done() const {
  const std::lock_guard lock(queue_.mutex_);
  return done_;
}

std::exception_ptr OperationQueue::Operation::error() const {
  const std::lock_guard lock(queue_.mutex_);
  return error_;
}

OperationQueue::~OperationQueue() {
  std::unique_lock lock(mutex_);
  while (running_ || !waiting_.empty()) {
    if (running_) {
      changed_.wait(lock);
    } else {
      run_next(lock);
    }
  }
  closing_ = true;
  lock.unlock();
  posted_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<OperationQueue::Operation> OperationQueue::push(std::function<void()> run) {
  std::shared_ptr<Operation> operation(new Operation(*this, std::move(run)));
  const std::lock_guard lock(mutex_);
  waiting_.push_back(operation);
  return operation;
}

std::shared_ptr<OperationQueue::Operation> OperationQueue::post(std::function<void()> run) {
  std::shared_ptr<Operation> operation = push(std::move(run));
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  posted_.notify_one();
  return operation;
}

void OperationQueue::run(std::function<void()> run) { wait(push(std::move(run))); }

void OperationQueue::wait(const std::shared_ptr<Operation>& operation) {
  std::unique_lock lock(mutex_);
  while (!operation->done_) {
    if (running_) {
      changed_.wait(lock);
    } else {
      run_next(lock);
    }
  }
  if (operation->error_) std::rethrow_exception(operation->error_);
}

void OperationQueue::run_next(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Operation> operation = std::move(waiting_.front());
  waiting_.pop_front();
  running_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    operation->run_();
  } catch (...) {
    // Thrown again by wait(), which may be on another thread.
    error = std::current_exception();
  }
  // Frees the tensors that the operation holds, outside the lock.
  operation->run_ = nullptr;
  lock.lock();
  operation->error_ = error;
  operation->done_ = true;
  running_ = false;
  changed_.notify_all();
  if (!waiting_.empty()) posted_.notify_one();
}

void OperationQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    posted_.wait(lock, [this] { return closing_ || (!running_ && !waiting_.empty()); });
    if (closing_) return;
    run_next(lock);
  }
}

}  // namespace titan
