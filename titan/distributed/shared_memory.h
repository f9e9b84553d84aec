#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace c10d {
class Store;
}

namespace titan {

enum class Collective {
  join,
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  gather,
  all_to_all,
  barrier
};

std::string_view collective_name(Collective collective);

/// "rank 3" or "ranks 3, 7".
std::string ranks_text(const std::vector<int64_t>& ranks);

struct SharedMemoryOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// Bytes of a member's slot, a multiple of 64; by default as many as the group's size allows.
  std::optional<int64_t> slot_bytes = {};
  /// What the machine can still give; tests say less than it has.
  std::optional<int64_t> available_memory = {};
  /// The process that stands for this member; tests, whose members are threads, name another one.
  std::optional<int64_t> pid = {};
};

/// Memory that the processes of a group on one machine share, and the barrier between them.
///
/// Each member has a slot in each of two halves. A round: begin_round(), write to the own slot(), arrive(),
/// read those of the others. Rounds use the halves in turns, so that nobody writes what another still reads:
/// who writes a half for the second time has passed the barrier that others reach after reading it.
///
/// The memory is an unnamed file that member 0 opens and the others reach through its process: nothing is
/// left behind however the processes end.
class SharedMemory {
 public:
  /// Meets the other members through `store`, whose keys are the group's own. `ranks` are for messages.
  /// ValueError when memory is short or a member does not come.
  SharedMemory(c10d::Store& store, std::string name, std::vector<int64_t> ranks, int64_t index,
               const SharedMemoryOptions& options = {});
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  const std::string& name() const { return name_; }
  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  int64_t index() const { return index_; }
  int64_t slot_bytes() const { return slot_bytes_; }
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  /// The next rounds are those of a collective over `bytes`; arrive() finds members that are in another one.
  void begin(Collective collective, int64_t bytes);

  void begin_round() { half_ = !half_; }
  /// A member's slot of this round; all slots of a round lie one after the other.
  std::byte* slot(int64_t member) const;

  /// Returns when every member has called it. ValueError naming the collective, the group and the rank that
  /// did not come in time, whose process is gone, or that is in another collective; the group has then failed
  /// and every member's next call throws the same.
  void arrive();

  /// Makes the group fail for all members, with that message unless it has failed before.
  void fail(std::string_view message);

 private:
  struct Header;
  struct Member;

  void map(int file);
  void join(int64_t pid);
  void wait_for_others(uint32_t generation);
  void look_for_gone();
  void check_same_collective();
  std::vector<int64_t> late() const;
  std::string place() const;
  [[noreturn]] void throw_failure() const;

  std::string name_;
  std::vector<int64_t> ranks_;
  int64_t index_, slot_bytes_ = 0, total_bytes_ = 0;
  std::atomic<std::chrono::milliseconds> timeout_;
  Header* header_ = nullptr;
  Member* members_ = nullptr;
  std::byte* slots_ = nullptr;
  bool half_ = false, first_arrival_ = false;
  uint64_t arrivals_ = 0, collectives_ = 0;
  Collective collective_ = Collective::join;
};

}  // namespace titan
