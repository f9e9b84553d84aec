#include "titan/distributed/shared_memory_group.h"

#include <exception>
#include <utility>

#include "titan/base/error.h"
#include "titan/distributed/ordered_sum.h"
#include "titan/distributed/shared_memory_collectives.h"
#include "titan/distributed/tensor_streams.h"

namespace titan {
namespace {

/// Below this, handing a collective to a thread costs more than it can gain.
constexpr int64_t kRunAtOnceBytes = int64_t{64} << 10;

int64_t bytes_in(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

std::byte* bytes_at(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

}  // namespace

SharedMemoryGroup::SharedMemoryGroup(c10d::Store& store, std::string name, std::vector<int64_t> ranks,
                                     int64_t index, const SharedMemoryOptions& options)
    : Group(name, ranks, index), memory_(store, name, ranks, index, options) {}

SharedMemoryGroup::~SharedMemoryGroup() {
  if (std::uncaught_exceptions() == 0) return;
  memory_.fail(
      format("group {}: rank {} has ended with an error", name(), ranks()[static_cast<size_t>(index())]));
}

Pending SharedMemoryGroup::start(int64_t bytes, std::function<void()> run) {
  if (bytes <= kRunAtOnceBytes) {
    queue_.run(std::move(run));
    return {};
  }
  return Pending([this, operation = queue_.post(std::move(run))] { queue_.wait(operation); });
}

Pending SharedMemoryGroup::start_all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) {
  const int64_t bytes = bytes_in(outs);
  return start(bytes, [this, outs = std::move(outs), ins = std::move(ins)] {
    gather_streams(memory_, Collective::all_gather, stream_of(ins), chunk_streams(outs, size()));
  });
}

Pending SharedMemoryGroup::start_reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins,
                                                bool accumulate) {
  std::vector<Reduction> reductions = reductions_of(outs, ins, accumulate);
  const int64_t bytes = bytes_in(ins);
  return start(bytes,
               [this, outs = std::move(outs), ins = std::move(ins), reductions = std::move(reductions)] {
                 std::vector<std::byte*> to;
                 for (const at::Tensor& out : outs) to.push_back(bytes_at(out));
                 reduce_streams(memory_, chunk_streams(ins, size()), to, reductions);
               });
}

Pending SharedMemoryGroup::start_all_reduce(at::Tensor tensor, ReduceOp op) {
  const Reduction reduction{.from = tensor.scalar_type(), .to = tensor.scalar_type(), .op = op};
  check_reduction(reduction);
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  return start(bytes, [this, tensor = std::move(tensor), reduction] {
    all_reduce_in_place(memory_, bytes_at(tensor), tensor.numel(), reduction);
  });
}

void SharedMemoryGroup::run_broadcast(at::Tensor tensor, int64_t root) {
  queue_.run(
      [&] { broadcast_in_place(memory_, bytes_at(tensor), static_cast<int64_t>(tensor.nbytes()), root); });
}

void SharedMemoryGroup::run_gather(const at::Tensor& out, const at::Tensor& in, int64_t rows, int64_t root) {
  const std::vector<ByteStream> streams = gather_chunk_streams(out, in, rows, size());
  queue_.run([&] { gather_streams(memory_, Collective::gather, stream_of({in}), streams, root); });
}

void SharedMemoryGroup::run_barrier() {
  queue_.run([&] {
    memory_.begin(Collective::barrier, 0);
    memory_.arrive();
  });
}

}  // namespace titan
