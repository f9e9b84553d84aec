#include "titan/distributed/group.h"

#include <algorithm>
#include <utility>

#include "titan/base/clock.h"
#include "titan/base/error.h"
#include "titan/nn/placement.h"
#include "titan/ops/profile_range.h"

namespace titan {
namespace {

int64_t total_bytes(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

/// Wholes and their chunks: same trailing sizes, contiguous, and each part the chunk of this member.
void check_chunks(const std::vector<at::Tensor>& wholes, const std::vector<at::Tensor>& parts, int64_t size,
                  int64_t index) {
  check(wholes.size() == parts.size(), "a collective has as many wholes as parts");
  for (size_t i = 0; i < wholes.size(); ++i) {
    const at::Tensor &whole = wholes[i], &part = parts[i];
    check(whole.is_contiguous() && part.is_contiguous(), "tensors of a collective are contiguous");
    check(whole.dim() >= 1 && whole.sizes().slice(1) == part.sizes().slice(1),
          "a chunk has the trailing sizes of its whole");
    check(part.size(0) == chunk_of(whole.size(0), size, index).count, "a chunk has its share of the rows");
  }
}

}  // namespace

GroupCounters& GroupCounters::operator+=(const GroupCounters& other) {
  all_gathers += other.all_gathers;
  reduce_scatters += other.reduce_scatters;
  all_reduces += other.all_reduces;
  all_gather_bytes += other.all_gather_bytes;
  reduce_scatter_bytes += other.reduce_scatter_bytes;
  all_reduce_bytes += other.all_reduce_bytes;
  seconds += other.seconds;
  return *this;
}

void Pending::wait() {
  if (!finish_) return;
  const auto finish = std::exchange(finish_, nullptr);
  finish();
}

Group::Group(std::string name, std::vector<int64_t> ranks, int64_t index)
    : name_(std::move(name)), ranks_(std::move(ranks)), index_(index) {
  check(index >= 0 && index < size(), "a process is a member of its group");
}

Pending Group::timed(const std::function<Pending()>& start) {
  const Stopwatch watch;
  Pending pending = start();
  counters_.seconds += watch.seconds();
  return Pending([this, pending = std::move(pending)]() mutable {
    const ProfileRange range("titan::wait", name_);
    const Stopwatch wait_watch;
    pending.wait();
    counters_.seconds += wait_watch.seconds();
  });
}

Pending Group::all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) {
  const ProfileRange range("titan::all_gather", name_);
  check_chunks(outs, ins, size(), index_);
  ++counters_.all_gathers;
  counters_.all_gather_bytes += total_bytes(outs) - total_bytes(ins);
  return timed([&] { return start_all_gather(std::move(outs), std::move(ins)); });
}

Pending Group::reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins, bool accumulate) {
  const ProfileRange range("titan::reduce_scatter", name_);
  check_chunks(ins, outs, size(), index_);
  ++counters_.reduce_scatters;
  for (size_t i = 0; i < ins.size(); ++i) {
    counters_.reduce_scatter_bytes += (ins[i].numel() - outs[i].numel()) * ins[i].element_size();
  }
  return timed([&] { return start_reduce_scatter(std::move(outs), std::move(ins), accumulate); });
}

Pending Group::all_reduce(at::Tensor tensor, ReduceOp op) {
  const ProfileRange range("titan::all_reduce", name_);
  check(tensor.is_contiguous(), "tensors of a collective are contiguous");
  ++counters_.all_reduces;
  counters_.all_reduce_bytes += static_cast<int64_t>(tensor.nbytes());
  return timed([&] { return start_all_reduce(std::move(tensor), op); });
}

void Group::broadcast(at::Tensor tensor, int64_t root) {
  const ProfileRange range("titan::broadcast", name_);
  check(tensor.is_contiguous() && root >= 0 && root < size(), "a broadcast has a root and a dense tensor");
  timed([&] { return run_broadcast(tensor, root), Pending(); });
}

void Group::gather(const at::Tensor& out, const at::Tensor& in, int64_t rows, int64_t root) {
  const ProfileRange range("titan::gather", name_);
  check(root >= 0 && root < size() && in.is_contiguous(), "a gather has a root and a dense tensor");
  check((index_ == root) == out.defined(), "the root of a gather, and only it, gives room for the whole");
  check(in.size(0) == chunk_of(rows, size(), index_).count, "a chunk has its share of the rows");
  timed([&] { return run_gather(out, in, rows, root), Pending(); });
}

void Group::barrier() {
  const ProfileRange range("titan::barrier", name_);
  timed([this] { return run_barrier(), Pending(); });
}

}  // namespace titan
