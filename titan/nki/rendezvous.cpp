#include "titan/nki/rendezvous.h"

#include <cstddef>

#include "titan/base/strings.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"
#include "titan/nki/operands.h"
#include "titan/nki/rows.h"

namespace titan::nki {
namespace {

bool is_sendrecv(const Instruction& instruction) {
  return std::holds_alternative<SendRecv>(instruction.attributes);
}

/// Calls `visit(rows, partition, where its bits begin)` with each partition of a tensor of an instruction.
template <class Visit>
void for_each_row(const Instruction& instruction, const Tensor& tensor, const Visit& visit) {
  try {
    const Rows rows(tensor);
    const int64_t row_bytes = rows.count() * itemsize(tensor.dtype());
    for (int64_t p = 0; p < rows.partitions(); ++p) visit(rows, p, p * row_bytes);
  } catch (const KernelError& error) {
    // What reads rows knows neither the instruction nor its line.
    throw error.at(instruction.where, instruction.describe());
  }
}

/// All bits of what an instruction sends.
std::vector<std::byte> sent_bits(const Instruction& instruction) {
  const Tensor& source = instruction.sources[0];
  std::vector<std::byte> bits(static_cast<size_t>(source.numel() * itemsize(source.dtype())));
  for_each_row(instruction, source,
               [&](const Rows& rows, int64_t p, int64_t at) { rows.read_bits(p, bits.data() + at); });
  return bits;
}

void receive_bits(const Instruction& instruction, const std::vector<std::byte>& bits) {
  for_each_row(instruction, instruction.dst,
               [&](const Rows& rows, int64_t p, int64_t at) { rows.write_bits(p, bits.data() + at); });
}

bool is_received_as(const Tensor& source, const Tensor& dst) {
  return source.shape() == dst.shape() && source.dtype() == dst.dtype();
}

}  // namespace

void Rendezvous::barrier(int64_t core, const Instruction& instruction) { meet(core, instruction, false); }

void Rendezvous::sendrecv(int64_t core, const Instruction& instruction, bool with_data) {
  meet(core, instruction, with_data);
}

void Rendezvous::meet(int64_t core, const Instruction& instruction, bool with_data) {
  if (num_cores_ == 1)
    throw KernelError("lnc.single-core",
                      format("{} needs the two cores of LNC 2, and the kernel runs on one: start it with "
                             "[2], or leave the instruction out when num_programs() is 1",
                             instruction.describe()),
                      instruction.where);
  std::unique_lock lock(mutex_);
  if (cancelled_) throw CoreCancelled{};
  Place& mine = places_[static_cast<size_t>(core)];
  Place& other = places_[static_cast<size_t>(1 - core)];
  if (other.waits_at != nullptr) {
    check_meeting(core, instruction, *other.waits_at);
    SharedAccesses::check_apart(accesses_[0], accesses_[1]);
    for (SharedAccesses& accesses : accesses_) accesses.clear();
    if (with_data) {
      const std::vector<std::byte> from_here = sent_bits(instruction);
      const std::vector<std::byte> from_there = sent_bits(*other.waits_at);
      receive_bits(*other.waits_at, from_here);
      receive_bits(instruction, from_there);
    }
    other.waits_at = nullptr;
    ++meetings_;
    changed_.notify_all();
    return;
  }
  const auto check_peer = [&] {
    if (!other.has_ended) return;
    throw KernelError("lnc.deadlock",
                      "a core waits for one that will not come: " + describe_places(core, instruction),
                      instruction.where);
  };
  check_peer();
  mine.waits_at = &instruction;
  const int64_t meeting = meetings_;
  changed_.wait(lock, [&] { return meetings_ != meeting || cancelled_ || other.has_ended; });
  if (meetings_ != meeting) return;
  mine.waits_at = nullptr;
  if (cancelled_) throw CoreCancelled{};
  check_peer();
}

void Rendezvous::check_meeting(int64_t core, const Instruction& mine, const Instruction& other) const {
  if (!is_sendrecv(mine) || !is_sendrecv(other)) {
    const bool same_kind = is_sendrecv(mine) == is_sendrecv(other);
    if (same_kind && barrier_data(mine).allocation() == barrier_data(other).allocation()) return;
    throw KernelError("lnc.barrier-mismatch",
                      format("{}: {}",
                             same_kind ? "the cores meet at barriers over different tensors"
                                       : "one core waits at a barrier and the other one in a sendrecv",
                             describe_places(core, mine)),
                      mine.where);
  }
  const SendRecv& here = std::get<SendRecv>(mine.attributes);
  const SendRecv& there = std::get<SendRecv>(other.attributes);
  std::string reason;
  if (here.pipe != there.pipe)
    reason = format("the cores wait on pipes {} and {}", core == 0 ? here.pipe : there.pipe,
                    core == 0 ? there.pipe : here.pipe);
  else if (here.send_to != 1 - core || here.receive_from != 1 - core || there.send_to != core ||
           there.receive_from != core)
    reason = "each core must send to the other one, and receive from it";
  else if (!is_received_as(mine.sources[0], other.dst) || !is_received_as(other.sources[0], mine.dst))
    reason = "what one core sends and what the other one receives differ in shape or dtype";
  else
    return;
  throw KernelError("lnc.sendrecv-mismatch", reason + ": " + describe_places(core, mine), mine.where);
}

std::string Rendezvous::describe_places(int64_t core, const Instruction& instruction) const {
  const Place& other = places_[static_cast<size_t>(1 - core)];
  const std::string here = format("core {} is at {}", core, describe_at(instruction));
  const std::string there = other.waits_at != nullptr
                                ? format("core {} is at {}", 1 - core, describe_at(*other.waits_at))
                                : format("core {} has ended {}", 1 - core, other.last);
  return core == 0 ? here + "; " + there : there + "; " + here;
}

Tensor Rendezvous::shared_hbm(int64_t core, const std::string& name, std::vector<int64_t> shape, Dtype dtype,
                              bool without_data) {
  if (shape.empty()) shape = {1};  // as hbm_tensor takes it
  const std::scoped_lock lock(mutex_);
  const auto index = static_cast<size_t>(places_[static_cast<size_t>(core)].num_shared++);
  if (index == shared_.size())
    shared_.push_back(hbm_tensor(name, shape, dtype, Buffer::shared_hbm, without_data));
  const Tensor& tensor = shared_[index];
  if (tensor.shape() != shape || tensor.dtype() != dtype || tensor.name() != name)
    throw KernelError("lnc.shared-hbm-mismatch",
                      format("shared_hbm tensor number {} is {} on the other core; both cores make the "
                             "same shared tensors in the same order",
                             index, tensor.describe()));
  return tensor;
}

void Rendezvous::end(int64_t core, std::string last) {
  const std::scoped_lock lock(mutex_);
  Place& mine = places_[static_cast<size_t>(core)];
  const Place& other = places_[static_cast<size_t>(1 - core)];
  mine.has_ended = true;
  mine.last = std::move(last);
  changed_.notify_all();
  if (num_cores_ == 2 && other.has_ended && mine.num_shared != other.num_shared)
    throw KernelError("lnc.shared-hbm-mismatch",
                      format("core {} has made {} shared_hbm tensors and has ended {}; core {} has made {} "
                             "and has ended {}: both cores make the same ones",
                             core, mine.num_shared, mine.last, 1 - core, other.num_shared, other.last));
  if (num_cores_ == 2 && other.has_ended) SharedAccesses::check_apart(accesses_[0], accesses_[1]);
}

void Rendezvous::cancel() {
  const std::scoped_lock lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

}  // namespace titan::nki
