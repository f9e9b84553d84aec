#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "titan/distributed/group.h"
#include "titan/nn/placement.h"

namespace titan::tests {

/// What the threads of a group share: where each one's tensors lie, and a barrier.
class Meeting {
 public:
  explicit Meeting(int64_t size) : tensors(static_cast<size_t>(size)), size_(size) {}

  void arrive() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return round_ != round; });
  }

  std::vector<std::vector<at::Tensor>> tensors;

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int64_t size_, arrived_ = 0, round_ = 0;
};

/// A group whose ranks are threads of this process; sums in rank order, like the real ones.
class ThreadGroup final : public Group {
 public:
  ThreadGroup(std::shared_ptr<Meeting> meeting, std::vector<int64_t> ranks, int64_t index)
      : Group("threads", std::move(ranks), index), meeting_(std::move(meeting)) {}

 private:
  at::Tensor rows_of(const at::Tensor& whole, int64_t rank) const {
    const Range range = chunk_of(whole.size(0), size(), rank);
    return whole.narrow(0, range.begin, range.count);
  }

  template <class Use>
  void exchange(std::vector<at::Tensor> mine, Use&& use) {
    const at::NoGradGuard no_grad;
    meeting_->tensors[static_cast<size_t>(index())] = std::move(mine);
    meeting_->arrive();
    use(meeting_->tensors);
    meeting_->arrive();
  }

  static at::Tensor wide(const at::Tensor& t) {
    return t.scalar_type() == at::kBFloat16 ? t.to(at::kFloat) : t;
  }

  Pending start_all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) override {
    exchange(std::move(ins), [&](const auto& of_rank) {
      for (size_t i = 0; i < outs.size(); ++i) {
        for (int64_t r = 0; r < size(); ++r) {
          const at::Tensor to = rows_of(outs[i], r), from = of_rank[static_cast<size_t>(r)][i];
          if (to.data_ptr() != from.data_ptr()) to.copy_(from);
        }
      }
    });
    return {};
  }

  Pending start_reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins,
                               bool accumulate) override {
    exchange(std::move(ins), [&](const auto& of_rank) {
      for (size_t i = 0; i < outs.size(); ++i) {
        at::Tensor sum = wide(rows_of(of_rank[0][i], index())).clone();
        for (size_t r = 1; r < of_rank.size(); ++r) sum.add_(wide(rows_of(of_rank[r][i], index())));
        if (accumulate) {
          outs[i].add_(sum);
        } else {
          outs[i].copy_(sum);
        }
      }
    });
    return {};
  }

  Pending start_all_reduce(at::Tensor tensor, ReduceOp op) override {
    at::Tensor result;
    exchange({tensor}, [&](const auto& of_rank) {
      result = wide(of_rank[0][0]).clone();
      for (size_t r = 1; r < of_rank.size(); ++r) {
        result = op == ReduceOp::sum ? result.add(wide(of_rank[r][0])) : result.max(wide(of_rank[r][0]));
      }
    });
    const at::NoGradGuard no_grad;
    tensor.copy_(result);
    meeting_->arrive();
    return {};
  }

  void run_broadcast(at::Tensor tensor, int64_t root) override {
    exchange({tensor}, [&](const auto& of_rank) {
      if (index() != root) tensor.copy_(of_rank[static_cast<size_t>(root)][0]);
    });
  }

  void run_gather(const at::Tensor& out, const at::Tensor& in, int64_t, int64_t) override {
    exchange({in}, [&](const auto& of_rank) {
      if (!out.defined()) return;
      for (int64_t r = 0; r < size(); ++r) rows_of(out, r).copy_(of_rank[static_cast<size_t>(r)][0]);
    });
  }

  void run_barrier() override { meeting_->arrive(); }

  std::shared_ptr<Meeting> meeting_;
};

/// Runs `rank_main(rank)` on `size` threads and rethrows the first exception. A rank that throws while others
/// wait for it would leave them waiting: tests of errors give every rank the same error.
inline void run_ranks(int64_t size, const std::function<void(int64_t)>& rank_main) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        rank_main(rank);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// The same with one group over all ranks.
inline void run_ranks(int64_t size, const std::function<void(Group&)>& rank_main) {
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < size; ++rank) ranks.push_back(rank);
  run_ranks(size, [&](int64_t rank) {
    ThreadGroup group(meeting, ranks, rank);
    rank_main(group);
  });
}

}  // namespace titan::tests
