#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "titan/nki/instruction.h"
#include "titan/nki/shared_accesses.h"

namespace titan::nki {

/// Thrown in a core whose peer has failed, to unwind its kernel. No std::exception: a kernel's own handlers
/// let it pass.
struct CoreCancelled {};

/// Where the physical cores of a logical one meet. A core that would wait for ever is a KernelError instead
/// that names both cores' places: "lnc.deadlock" (the other one has ended), "lnc.barrier-mismatch" (it waits
/// for something else, or at a barrier for other data), "lnc.sendrecv-mismatch" (another pipe, shape or
/// dtype), "lnc.single-core" (there is no other one). Where they meet, and at the end, it is seen that what
/// they did with shared HBM meanwhile needed no order: "memory.race".
class Rendezvous {
 public:
  /// `num_cores`: 1 or 2.
  explicit Rendezvous(int64_t num_cores) : num_cores_(num_cores) {}

  /// CoreBarrier: returns once both cores are there over the same tensor.
  void barrier(int64_t core, const Instruction& instruction);

  /// SendRecv: sources[0] becomes the other core's dst, and the other's sources[0] becomes dst. Nothing
  /// is moved when not `with_data`.
  void sendrecv(int64_t core, const Instruction& instruction, bool with_data);

  /// HBM that all cores see: the n-th call of each core gives the same tensor. Does not wait.
  /// "lnc.shared-hbm-mismatch" when the cores' n-th calls differ.
  Tensor shared_hbm(int64_t core, const std::string& name, std::vector<int64_t> shape, Dtype dtype,
                    bool without_data);

  /// Where a core is to note what it does with shared HBM; null where there is no other one.
  SharedAccesses* shared_accesses(int64_t core) {
    return num_cores_ == 2 ? &accesses_[static_cast<size_t>(core)] : nullptr;
  }

  /// A core has returned from its kernel; `last` says after what.
  void end(int64_t core, std::string last);
  /// A core has failed: the other one stops at its next instruction, or where it waits.
  void cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  struct Place {
    const Instruction* waits_at = nullptr;  ///< alive while its core waits
    bool has_ended = false;
    std::string last;  ///< for cores that have ended
    int64_t num_shared = 0;
  };

  void meet(int64_t core, const Instruction& instruction, bool with_data);
  std::string describe_places(int64_t core, const Instruction& instruction) const;
  void check_meeting(int64_t core, const Instruction& mine, const Instruction& other) const;

  int64_t num_cores_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Place, 2> places_;
  int64_t meetings_ = 0;
  std::vector<Tensor> shared_;
  std::array<SharedAccesses, 2> accesses_;  ///< since the last meeting, each by its core's thread
  std::atomic<bool> cancelled_ = false;
};

}  // namespace titan::nki
