#include "titan/distributed/shared_memory_backend.h"

#include <functional>
#include <numeric>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "titan/base/error.h"
#include "titan/distributed/operation_queue.h"
#include "titan/distributed/shared_memory_collectives.h"
#include "titan/distributed/tensor_streams.h"

namespace titan {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class QueuedWork final : public c10d::Work {
 public:
  QueuedWork(int rank, c10d::OpType type, OperationQueue& queue, std::function<void()> run, Tensors results)
      : Work(rank, type),
        queue_(queue),
        operation_(queue.post(std::move(run))),
        results_(std::move(results)) {}

  bool isCompleted() override { return operation_->done(); }
  bool isSuccess() const override { return operation_->done() && !operation_->error(); }
  std::exception_ptr exception() const override { return operation_->error(); }
  Tensors result() override { return results_; }

  /// The group's timeout counts, not this one.
  bool wait(std::chrono::milliseconds) override {
    queue_.wait(operation_);
    return true;
  }

 private:
  OperationQueue& queue_;
  std::shared_ptr<OperationQueue::Operation> operation_;
  Tensors results_;
};

/// [size * n, ...] as one chunk a rank, which chunk_of() then gives.
at::Tensor by_ranks(const at::Tensor& tensor, int64_t size) {
  check(tensor.is_contiguous() && tensor.numel() % size == 0, "a tensor has equal parts for all ranks");
  return tensor.view({size, tensor.numel() / size});
}

Tensors by_ranks(const Tensors& tensors, int64_t size) {
  Tensors cut;
  for (const at::Tensor& tensor : tensors) cut.push_back(by_ranks(tensor, size));
  return cut;
}

ReduceOp reduce_op(const c10d::ReduceOp& op) {
  if (op == c10d::ReduceOp::SUM) return ReduceOp::sum;
  if (op == c10d::ReduceOp::MAX) return ReduceOp::max;
  throw ValueError("the backend titan_shm reduces by SUM and MAX only");
}

class SharedMemoryBackend final : public c10d::Backend {
 public:
  SharedMemoryBackend(c10d::Store& store, int rank, int size, const SharedMemoryOptions& options)
      : Backend(rank, size), memory_(store, "titan_shm", numbered(size), rank, options) {}

  const std::string getBackendName() const override { return "titan_shm"; }
  void setTimeout(std::chrono::milliseconds timeout) override { memory_.set_timeout(timeout); }

  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions&) override {
    return all_gather(c10d::OpType::_ALLGATHER_BASE, {out}, {in});
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outs, Tensors& ins,
                                          const c10d::AllgatherOptions&) override {
    return all_gather(c10d::OpType::COALESCED, outs, ins);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& options) override {
    return reduce_scatter(c10d::OpType::_REDUCE_SCATTER_BASE, {out}, {in}, options);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outs, Tensors& ins,
                                          const c10d::ReduceScatterOptions& options) override {
    return reduce_scatter(c10d::OpType::COALESCED, outs, ins, options);
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor t = only(tensors);
    const Reduction reduction{t.scalar_type(), t.scalar_type(), reduce_op(options.reduceOp)};
    check_reduction(reduction);
    return start(c10d::OpType::ALLREDUCE, {t},
                 [this, t, reduction] { all_reduce_in_place(memory_, bytes_of(t), t.numel(), reduction); });
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor t = only(tensors);
    return start(c10d::OpType::BROADCAST, {t}, [this, t, root = options.rootRank] {
      broadcast_in_place(memory_, bytes_of(t), static_cast<int64_t>(t.nbytes()), root);
    });
  }

  WorkPtr gather(std::vector<Tensors>& outs, Tensors& ins, const c10d::GatherOptions& options) override {
    const at::Tensor in = only(ins);
    const Tensors all = getRank() == options.rootRank ? outs.at(0) : Tensors();
    return start(c10d::OpType::GATHER, all, [this, in, all, root = options.rootRank] {
      std::vector<ByteStream> streams(static_cast<size_t>(getSize()));
      for (size_t r = 0; r < streams.size(); ++r) {
        streams[r].add(all.empty() ? nullptr : all[r].data_ptr(), static_cast<int64_t>(in.nbytes()));
      }
      gather_streams(memory_, Collective::gather, stream_of({in}), streams, root);
    });
  }

  WorkPtr barrier(const c10d::BarrierOptions&) override {
    return start(c10d::OpType::BARRIER, {}, [this] {
      memory_.begin(Collective::barrier, 0);
      memory_.arrive();
    });
  }

 private:
  static std::vector<int64_t> numbered(int size) {
    std::vector<int64_t> ranks(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  static std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

  static at::Tensor only(const Tensors& tensors) {
    check(tensors.size() == 1 && tensors[0].is_contiguous(), "a collective has one dense tensor");
    return tensors[0];
  }

  WorkPtr start(c10d::OpType type, Tensors results, std::function<void()> run) {
    return c10::make_intrusive<QueuedWork>(getRank(), type, queue_, std::move(run), std::move(results));
  }

  WorkPtr all_gather(c10d::OpType type, const Tensors& outs, const Tensors& ins) {
    return start(type, outs, [this, outs, ins] {
      gather_streams(memory_, Collective::all_gather, stream_of(ins),
                     chunk_streams(by_ranks(outs, getSize()), getSize()));
    });
  }

  WorkPtr reduce_scatter(c10d::OpType type, const Tensors& outs, const Tensors& ins,
                         const c10d::ReduceScatterOptions& options) {
    std::vector<Reduction> reductions = reductions_of(outs, ins, false);
    for (Reduction& reduction : reductions) reduction.op = reduce_op(options.reduceOp);
    return start(type, outs, [this, outs, ins, reductions = std::move(reductions)] {
      std::vector<std::byte*> to;
      for (const at::Tensor& out : outs) to.push_back(bytes_of(out));
      reduce_streams(memory_, chunk_streams(by_ranks(ins, getSize()), getSize()), to, reductions);
    });
  }

  SharedMemory memory_;
  OperationQueue queue_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_shared_memory_backend(c10d::Store& store, int rank, int size,
                                                             const SharedMemoryOptions& options) {
  return c10::make_intrusive<SharedMemoryBackend>(store, rank, size, options);
}

}  // namespace titan
