#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <omp.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "titan/distributed/group.h"
#include "titan/nn/placement.h"

namespace titan::tests {

/// A collective of threads that cannot come to its end, because of what another rank did or did not do.
struct RankMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the threads of a group share: where each one's tensors lie, and a barrier.
class Meeting {
 public:
  explicit Meeting(int64_t size, std::chrono::milliseconds limit = std::chrono::seconds(60))
      : tensors(static_cast<size_t>(size)), here_(static_cast<size_t>(size)), limit_(limit) {}

  /// Waits for the other ranks. RankMissing, now and from then on, on every rank that waits or comes, when
  /// one of them has left or does not come in time.
  void arrive(int64_t rank) {
    std::unique_lock lock(mutex_);
    if (!failure_.empty()) throw RankMissing(failure_);
    here_[static_cast<size_t>(rank)] = true;
    const int64_t round = round_;
    if (missing().empty()) {
      here_.assign(here_.size(), false);
      ++round_;
      changed_.notify_all();
      return;
    }
    const auto over = [&] { return round_ != round || !failure_.empty(); };
    if (!changed_.wait_for(lock, limit_, over)) fail("did not arrive at a collective in time");
    if (round_ == round) throw RankMissing(failure_);
  }

  /// The rank comes no more; whoever waits for it learns so.
  void leave(int64_t rank) {
    const std::scoped_lock lock(mutex_);
    if (failure_.empty()) failure_ = "rank " + std::to_string(rank) + " of a group of threads has left it";
    changed_.notify_all();
  }

  std::vector<std::vector<at::Tensor>> tensors;

 private:
  std::string missing() const {
    std::string ranks;
    for (size_t rank = 0; rank < here_.size(); ++rank) {
      if (!here_[rank]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    return ranks;
  }

  void fail(const std::string& how) {
    failure_ = "rank " + missing() + " of a group of threads " + how;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> here_;
  std::chrono::milliseconds limit_;
  int64_t round_ = 0;
  std::string failure_;
};

/// A group whose ranks are threads of this process; sums in rank order, like the real ones.
class ThreadGroup final : public Group {
 public:
  ThreadGroup(std::shared_ptr<Meeting> meeting, std::vector<int64_t> ranks, int64_t index)
      : Group("threads", std::move(ranks), index), meeting_(std::move(meeting)) {}
  ~ThreadGroup() override { meeting_->leave(index()); }

 private:
  at::Tensor rows_of(const at::Tensor& whole, int64_t rank) const {
    const Range range = chunk_of(whole.size(0), size(), rank);
    return whole.narrow(0, range.begin, range.count);
  }

  template <class Use>
  void exchange(std::vector<at::Tensor> mine, Use&& use) {
    const at::NoGradGuard no_grad;
    meeting_->tensors[static_cast<size_t>(index())] = std::move(mine);
    meeting_->arrive(index());
    use(meeting_->tensors);
    meeting_->arrive(index());
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
    meeting_->arrive(index());
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

  void run_barrier() override { meeting_->arrive(index()); }

  std::shared_ptr<Meeting> meeting_;
};

/// Runs `rank_main(rank)` on `size` threads and rethrows the first rank's exception, the cause before what
/// followed from it.
inline void run_ranks(int64_t size, const std::function<void(int64_t)>& rank_main) {
  std::vector<std::exception_ptr> causes(static_cast<size_t>(size)), effects = causes;
  std::vector<std::thread> threads;
  const auto dispatch_keys = c10::impl::tls_local_dispatch_key_set();  // of the tests' default device
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      c10::impl::_force_tls_local_dispatch_key_set(dispatch_keys);
      // A device has one thread for backwards, in which a rank would wait for those that come after it.
      c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
      omp_set_num_threads(1);  // the ranks' teams would spin for each other's cores
      try {
        rank_main(rank);
      } catch (const RankMissing&) {
        effects[static_cast<size_t>(rank)] = std::current_exception();
      } catch (...) {
        causes[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto* errors : {&causes, &effects}) {
    for (const auto& error : *errors) {
      if (error) std::rethrow_exception(error);
    }
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
