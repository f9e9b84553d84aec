#include "titan/distributed/gloo_group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <type_traits>
#include <utility>

#include "titan/base/error.h"
#include "titan/distributed/ordered_sum.h"
#include "titan/distributed/quiet_c10d.h"
#include "titan/distributed/shared_memory.h"
#include "titan/distributed/tensor_streams.h"
#include "titan/nn/placement.h"

namespace titan {
namespace {

/// Up to this many bytes, all members get all of a tensor and sum it alone; above, each sums its share.
constexpr int64_t kGatherToSumBytes = int64_t{1} << 20;
/// How long members that see a failure wait for one another, to find out whose fault it is.
constexpr std::chrono::milliseconds kRollCall{3000};
/// How often a waiter looks whether another member saw a failure.
constexpr std::chrono::milliseconds kLookInterval{300};

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

at::Tensor as_bytes(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), {static_cast<int64_t>(tensor.nbytes())}, at::kByte);
}

void pack(const ByteStream& stream, std::byte* to) {
  stream.each(0, stream.length(), [&](const ByteStream::Part& part) {
    std::memcpy(to + part.position, part.data, static_cast<size_t>(part.bytes));
  });
}

void unpack(const ByteStream& stream, const std::byte* from) {
  stream.each(0, stream.length(), [&](const ByteStream::Part& part) {
    if (part.data != from + part.position) {
      std::memcpy(part.data, from + part.position, static_cast<size_t>(part.bytes));
    }
  });
}

class GlooGroup final : public Group {
 public:
  GlooGroup(c10d::Store& store, std::string name, std::vector<int64_t> ranks, int64_t index,
            const GlooNetwork& network, std::chrono::milliseconds timeout)
      : Group(std::move(name), std::move(ranks), index),
        store_(c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store)),
        timeout_(timeout) {
    guarded(Collective::join, [&] {
      const auto options = c10d::ProcessGroupGloo::Options::create(timeout);
      options->threads = 1;
      for (const std::string& interface : network.interfaces) {
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
      }
      if (!network.address.empty()) {
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(network.address));
      }
      gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, static_cast<int>(this->index()),
                                                          static_cast<int>(size()), options);
    });
  }

  void set_timeout(std::chrono::milliseconds timeout) override {
    timeout_ = timeout;
    gloo_->setTimeout(timeout);
  }

 private:
  using Work = c10::intrusive_ptr<c10d::Work>;

  /// Everyone's buffer of `length` bytes, one after the other; this member's holds the stream.
  std::pair<Work, at::Tensor> gather_buffers(const ByteStream& mine, int64_t length) {
    const at::Tensor all = at::empty({size() * length}, at::kByte);
    at::Tensor own = all.narrow(0, index() * length, length), out = all;
    pack(mine, bytes_of(own));
    c10d::AllgatherOptions options;
    options.timeout = timeout_;
    return {gloo_->_allgather_base(out, own, options), all};
  }

  Pending start_all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) override {
    std::vector<ByteStream> streams = chunk_streams(outs, size());
    const int64_t length = longest(streams);
    if (length == 0) return {};
    auto [work, all] =
        guarded(Collective::all_gather, [&] { return gather_buffers(stream_of(ins), length); });
    return Pending([this, work = std::move(work), all = std::move(all), streams = std::move(streams), length,
                    keep = std::pair(std::move(outs), std::move(ins))] {
      finish(Collective::all_gather, *work);
      for (int64_t r = 0; r < size(); ++r)
        unpack(streams[static_cast<size_t>(r)], bytes_of(all) + r * length);
    });
  }

  Pending start_reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins,
                               bool accumulate) override {
    std::vector<Reduction> reductions = reductions_of(outs, ins, accumulate);
    std::vector<std::byte*> to;
    for (const at::Tensor& out : outs) to.push_back(bytes_of(out));
    std::vector<ByteStream> parts = chunk_streams(ins, size());
    return Pending([finish = start_reduce(Collective::reduce_scatter, std::move(parts), std::move(to),
                                          std::move(reductions)),
                    keep = std::pair(std::move(outs), std::move(ins))]() mutable { finish.wait(); });
  }

  Pending start_reduce(Collective collective, std::vector<ByteStream> parts, std::vector<std::byte*> outs,
                       std::vector<Reduction> reductions) {
    std::vector<int64_t> sent;
    int64_t total = 0;
    for (const ByteStream& part : parts) {
      sent.push_back(part.length());
      total += part.length();
    }
    if (total == 0) return {};
    at::Tensor send = at::empty({total}, at::kByte);
    int64_t position = 0;
    for (const ByteStream& part : parts) {
      pack(part, bytes_of(send) + position);
      position += part.length();
    }
    const int64_t length = sent[static_cast<size_t>(index())];
    std::vector<int64_t> received(static_cast<size_t>(size()), length);
    at::Tensor arrived = at::empty({size() * length}, at::kByte);
    c10d::AllToAllOptions options;
    options.timeout = timeout_;
    Work work =
        guarded(collective, [&] { return gloo_->alltoall_base(arrived, send, received, sent, options); });
    return Pending([this, collective, work = std::move(work), send, arrived, length, parts = std::move(parts),
                    outs = std::move(outs), reductions = std::move(reductions)] {
      finish(collective, *work);
      sum_arrived(parts[static_cast<size_t>(index())], bytes_of(arrived), length, outs, reductions);
    });
  }

  void sum_arrived(const ByteStream& mine, const std::byte* arrived, int64_t length,
                   const std::vector<std::byte*>& outs, const std::vector<Reduction>& reductions) const {
    std::vector<const std::byte*> sources(static_cast<size_t>(size()));
    mine.each(0, mine.length(), [&](const ByteStream::Part& part) {
      for (int64_t r = 0; r < size(); ++r) {
        sources[static_cast<size_t>(r)] = arrived + r * length + part.position;
      }
      const Reduction& reduction = reductions[part.piece];
      reduce_in_order(reduction, outs[part.piece], sources,
                      part.bytes / static_cast<int64_t>(c10::elementSize(reduction.from)));
    });
  }

  /// Done when it returns: its two steps must not mix with those of other collectives.
  Pending start_all_reduce(at::Tensor tensor, ReduceOp op) override {
    const Reduction reduction{.from = tensor.scalar_type(), .to = tensor.scalar_type(), .op = op};
    check_reduction(reduction);
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes == 0) return {};
    if (bytes * size() <= kGatherToSumBytes) {
      const ByteStream mine = stream_of({tensor});
      const auto [work, all] =
          guarded(Collective::all_reduce, [&, this] { return gather_buffers(mine, mine.length()); });
      finish(Collective::all_reduce, *work);
      sum_arrived(mine, bytes_of(all), mine.length(), {bytes_of(tensor)}, {reduction});
      return {};
    }
    const at::Tensor flat = tensor.view({-1});
    const Range share = chunk_of(flat.size(0), size(), index());
    const at::Tensor part = flat.narrow(0, share.begin, share.count);
    start_reduce(Collective::all_reduce, chunk_streams({flat}, size()), {bytes_of(part)}, {reduction}).wait();
    start_all_gather({flat}, {part}).wait();
    return {};
  }

  void run_broadcast(at::Tensor tensor, int64_t root) override {
    if (tensor.nbytes() == 0) return;
    std::vector<at::Tensor> tensors = {as_bytes(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.timeout = timeout_;
    finish(Collective::broadcast,
           *guarded(Collective::broadcast, [&] { return gloo_->broadcast(tensors, options); }));
  }

  void run_gather(const at::Tensor& out, const at::Tensor& in, int64_t rows, int64_t root) override {
    const std::vector<ByteStream> streams = gather_chunk_streams(out, in, rows, size());
    const int64_t length = longest(streams);
    if (length == 0) return;
    std::vector<at::Tensor> own = {at::empty({length}, at::kByte)};
    pack(stream_of({in}), bytes_of(own[0]));
    std::vector<std::vector<at::Tensor>> all;
    if (index() == root) {
      all.emplace_back();
      for (int64_t r = 0; r < size(); ++r) all[0].push_back(at::empty({length}, at::kByte));
    }
    c10d::GatherOptions options;
    options.rootRank = root;
    options.timeout = timeout_;
    finish(Collective::gather,
           *guarded(Collective::gather, [&] { return gloo_->gather(all, own, options); }));
    for (size_t r = 0; index() == root && r < streams.size(); ++r) unpack(streams[r], bytes_of(all[0][r]));
  }

  void run_barrier() override {
    c10d::BarrierOptions options;
    options.timeout = timeout_;
    finish(Collective::barrier, *guarded(Collective::barrier, [&] { return gloo_->barrier(options); }));
  }

  /// Waits for the work, and for word from others that the group has failed: Gloo tells a failure only to
  /// those that happen to talk to the rank at fault.
  void finish(Collective collective, c10d::Work& work) {
    guarded(collective, [&] {
      while (!work.isCompleted()) {
        try {
          work.wait(kLookInterval);
        } catch (const c10::Error&) {
          if (work.isCompleted()) throw;
          if (store_->check({"failed"})) fail(collective, "another member failed");
        }
      }
      work.wait();
    });
  }

  /// run(), with Gloo's errors said in our words. A group that failed once stays so.
  template <class Run>
  std::invoke_result_t<Run> guarded(Collective collective, Run&& run) {
    if (!failure_.empty()) throw PeerError("{}", failure_);
    try {
      return run();
    } catch (const c10::Error& error) {
      fail(collective, error.what_without_backtrace());
    } catch (const gloo::Exception& error) {
      fail(collective, error.what());
    }
  }

  [[noreturn]] void fail(Collective collective, const std::string& why) {
    const std::string place = format("{} over group {}", collective_name(collective), name());
    bool late = why.find("imed out") != std::string::npos || why.find("imeout") != std::string::npos;
    const bool refused =
        collective == Collective::join && std::chrono::steady_clock::now() - made_ < timeout_;
    const std::vector<int64_t> missing = missing_members(late);
    const bool one = missing.size() == 1;
    if (refused) {
      failure_ = format(
          "group {}: no connection to other ranks ({}); GLOO_SOCKET_IFNAME names the interface that reaches "
          "them",
          name(), why.substr(0, why.find('\n')));
    } else if (missing.empty()) {
      failure_ = format("{}: {}", place, why.substr(0, why.find('\n')));
    } else if (late) {
      failure_ = format("{} {} not arrived in {} after {} s", ranks_text(missing), one ? "has" : "have",
                        place, static_cast<double>(timeout_.count()) / 1000);
    } else {
      failure_ = format("{}: {} {} gone", place, ranks_text(missing), one ? "is" : "are");
    }
    throw PeerError("{}", failure_);
  }

  /// The members that do not learn of the failure within a short time. `late` becomes what the first to fail
  /// says: whether its time was up.
  std::vector<int64_t> missing_members(bool& late) {
    const QuietC10d quiet;
    std::vector<int64_t> missing;
    try {
      late = store_->compareSet("failed", std::string(), std::string(late ? "late" : "gone")) == "late";
      store_->set(format("failed/{}", index()), std::vector<uint8_t>{1});
      const auto deadline = std::chrono::steady_clock::now() + kRollCall;
      do {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        missing.clear();
        for (int64_t r = 0; r < size(); ++r) {
          if (!store_->check({format("failed/{}", r)})) missing.push_back(ranks()[static_cast<size_t>(r)]);
        }
      } while (!missing.empty() && std::chrono::steady_clock::now() < deadline);
    } catch (const c10::Error&) {
      // The store has gone with the rank that held it; what was seen before holds.
    }
    return missing;
  }

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  std::chrono::milliseconds timeout_;
  std::string failure_;
  std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
};

}  // namespace

std::unique_ptr<Group> make_gloo_group(c10d::Store& store, std::string name, std::vector<int64_t> ranks,
                                       int64_t index, const GlooNetwork& network,
                                       std::chrono::milliseconds timeout) {
  return std::make_unique<GlooGroup>(store, std::move(name), std::move(ranks), index, network, timeout);
}

}  // namespace titan
