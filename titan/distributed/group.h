#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace titan {

enum class ReduceOp { sum, max };

/// A collective under way. What it writes is there after wait(), which may be called once or not at all; the
/// tensors handed to the collective stay alive until then.
class Pending {
 public:
  Pending() = default;  ///< done already
  explicit Pending(std::function<void()> finish) : finish_(std::move(finish)) {}

  /// Throws what the collective failed with: ValueError naming the collective, the group and the rank that is
  /// late or gone.
  void wait();

 private:
  std::function<void()> finish_;
};

/// What a group has carried since it was made, for metrics and tests.
struct GroupCounters {
  int64_t all_gathers = 0, reduce_scatters = 0, all_reduces = 0;
  /// Bytes this rank received from others in all-gathers: outs minus its own part.
  int64_t all_gather_bytes = 0;
  /// Bytes this rank sent to others in reduce-scatters: ins minus its own part.
  int64_t reduce_scatter_bytes = 0;
  /// Bytes of the tensors reduced.
  int64_t all_reduce_bytes = 0;
  /// Time that callers spent waiting.
  double seconds = 0;

  GroupCounters& operator+=(const GroupCounters& other);
};

/// Ranks that communicate, in a fixed order. Every member calls the same collectives in the same order, from
/// one thread at a time. Sums run in rank order, so that they give the same bits on every rank and every run.
/// Tensors are contiguous, on the group's device. A group of one does no communication.
class Group {
 public:
  /// `ranks` are those of the whole job, ascending; `index` is this process's place among them.
  Group(std::string name, std::vector<int64_t> ranks, int64_t index);
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<int64_t>& ranks() const { return ranks_; }
  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  int64_t index() const { return index_; }

  /// Each of outs [R, ...] is cut along dim 0 as chunk_of(R, size(), r) says; chunk r is rank r's entry of
  /// `ins`. All pairs are one collective. ins[i] may already be the chunk of outs[i].
  Pending all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins);

  /// outs[i] = this rank's chunk (dim 0, as chunk_of) of the sum over ranks of ins[i]; with `accumulate`,
  /// added to what outs[i] holds. bfloat16 ins with float32 outs are summed in float32.
  Pending reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins, bool accumulate = false);

  /// In place; float32, float64, bfloat16 (summed in float32) and int64.
  Pending all_reduce(at::Tensor tensor, ReduceOp op = ReduceOp::sum);

  /// Everyone's tensor becomes that of the member `root` (an index into ranks()).
  void broadcast(at::Tensor tensor, int64_t root = 0);

  /// The member `root` gets `out` [R, ...] as all_gather() would give it; the others pass an undefined
  /// tensor. R is the number of rows of the whole.
  void gather(const at::Tensor& out, const at::Tensor& in, int64_t rows, int64_t root = 0);

  /// Returns when every member has called it.
  void barrier();

  /// From now on a collective fails after that long.
  virtual void set_timeout(std::chrono::milliseconds) {}

  const GroupCounters& counters() const { return counters_; }

 private:
  virtual Pending start_all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) = 0;
  virtual Pending start_reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins,
                                       bool accumulate) = 0;
  virtual Pending start_all_reduce(at::Tensor tensor, ReduceOp op) = 0;
  virtual void run_broadcast(at::Tensor tensor, int64_t root) = 0;
  virtual void run_gather(const at::Tensor& out, const at::Tensor& in, int64_t rows, int64_t root) = 0;
  virtual void run_barrier() = 0;

  Pending timed(const std::function<Pending()>& start);

  std::string name_;
  std::vector<int64_t> ranks_;
  int64_t index_;
  GroupCounters counters_;
};

}  // namespace titan
