#include "titan/distributed/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "titan/base/available_memory.h"
#include "titan/base/error.h"

namespace titan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPage = 4096;
/// Slots of more than this are not faster; a group's slots together are at most kMostSlotBytes.
constexpr int64_t kLargestSlot = int64_t{1} << 20;
constexpr int64_t kMostSlotBytes = int64_t{64} << 20;
/// How long a waiter sleeps before it looks whether the others live.
constexpr std::chrono::milliseconds kLookInterval{150};
/// Tries before a waiter sleeps: about a microsecond, for members that arrive together.
constexpr int kTries = 20;

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds limit) {
  const timespec time{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// When a process started, in the kernel's ticks; 0 when there is none, or only what its parent must still
/// collect.
int64_t start_of_process(int64_t pid) {
  std::ifstream file(format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return 0;
  // The name, in brackets, may hold anything.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string state, skipped;
  fields >> state;
  if (state == "Z" || state == "X") return 0;
  for (int i = 0; i < 18; ++i) fields >> skipped;
  int64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

std::string reason(int error) { return std::system_category().message(error); }

std::string seconds_text(std::chrono::milliseconds time) {
  return format("{} s", static_cast<double>(time.count()) / 1000);
}

/// An open file; -1 is none.
struct File {
  int number = -1;
  explicit File(int opened) : number(opened) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number >= 0) close(number);
  }
};

/// Takes the memory now: later, the lack of it would be a signal. "" or what went wrong.
std::string reserve(const File& file, int64_t bytes, int64_t available) {
  if (bytes > available) {
    return format("{} bytes are needed but only {} are left", with_commas(bytes), with_commas(available));
  }
  if (file.number < 0) return reason(errno);
  while (fallocate(file.number, 0, 0, bytes) != 0) {
    if (errno != EINTR) return format("{} bytes: {}", with_commas(bytes), reason(errno));
  }
  return "";
}

void tell(c10d::Store& store, const std::string& text) {
  store.set("segment", std::vector<uint8_t>(text.begin(), text.end()));
}

std::string hear(c10d::Store& store, std::chrono::milliseconds timeout) {
  try {
    store.wait({"segment"}, timeout);
  } catch (const c10::Error&) {
    return "error it did not come in " + seconds_text(timeout);
  }
  const std::vector<uint8_t> bytes = store.get("segment");
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::string_view collective_name(Collective collective) {
  constexpr std::array<std::string_view, 8> kNames = {
      "join", "all_gather", "reduce_scatter", "all_reduce", "broadcast", "gather", "all_to_all", "barrier"};
  return kNames.at(static_cast<size_t>(collective));
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

struct SharedMemory::Header {
  std::atomic<uint32_t> generation;  // of the barrier; waiters sleep on it
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> failed;  // 1 while the message is written, 2 when it stands
  std::atomic<int64_t> looked;   // when a waiter last looked for processes that are gone
  char message[1024];
};

struct alignas(64) SharedMemory::Member {
  std::atomic<int64_t> pid, start;
  std::atomic<uint64_t> arrivals;
  // Which collective the member is in: bytes * 256 + kind. By turns, as the halves are.
  std::atomic<uint64_t> collective[2];
};

SharedMemory::SharedMemory(c10d::Store& store, std::string name, std::vector<int64_t> ranks, int64_t index,
                           const SharedMemoryOptions& options)
    : name_(std::move(name)), ranks_(std::move(ranks)), index_(index), timeout_(options.timeout) {
  static_assert(sizeof(Header) <= kPage);
  static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
  const int64_t fair = kMostSlotBytes / (2 * size()) / kPage * kPage;
  slot_bytes_ = options.slot_bytes.value_or(std::clamp(fair, kPage, kLargestSlot));
  check(slot_bytes_ > 0 && slot_bytes_ % 64 == 0, "slots are whole cache lines");
  const int64_t members_bytes = round_up(size() * static_cast<int64_t>(sizeof(Member)), kPage);
  total_bytes_ = kPage + members_bytes + round_up(2 * size() * slot_bytes_, kPage);
  const int64_t pid = options.pid.value_or(getpid());
  if (index_ == 0) {
    const File file(memfd_create("titan", MFD_CLOEXEC));
    const std::string problem =
        reserve(file, total_bytes_, options.available_memory.value_or(available_memory()));
    tell(store, problem.empty() ? format("{} {}", getpid(), file.number) : "error " + problem);
    if (!problem.empty()) throw ValueError("shared memory of group {}: {}", name_, problem);
    map(file.number);
    // The others open the file through this process's table of open files.
    join(pid);
    return;
  }
  const std::string told = hear(store, options.timeout);
  if (told.starts_with("error ")) {
    throw ValueError("shared memory of group {}: {}", name_, told.substr(6));
  }
  const std::vector<std::string> process_and_file = split(told, ' ');
  const std::string path = format("/proc/{}/fd/{}", process_and_file.at(0), process_and_file.at(1));
  {
    const File file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (file.number < 0) {
      throw ValueError("shared memory of group {}: rank {} cannot open {} of rank {}: {}", name_,
                       ranks_[static_cast<size_t>(index_)], path, ranks_[0], reason(errno));
    }
    map(file.number);
  }
  join(pid);
}

SharedMemory::~SharedMemory() {
  if (header_) munmap(header_, static_cast<size_t>(total_bytes_));
}

void SharedMemory::map(int file) {
  void* const memory =
      mmap(nullptr, static_cast<size_t>(total_bytes_), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) throw ValueError("shared memory of group {}: {}", name_, reason(errno));
  header_ = static_cast<Header*>(memory);
  std::byte* const bytes = static_cast<std::byte*>(memory);
  members_ = reinterpret_cast<Member*>(bytes + kPage);
  slots_ = bytes + total_bytes_ - round_up(2 * size() * slot_bytes_, kPage);
}

void SharedMemory::join(int64_t pid) {
  Member& me = members_[index_];
  me.start = start_of_process(pid);
  me.pid = pid;
  try {
    begin(Collective::join, size());
    arrive();
  } catch (const ValueError&) {
    munmap(header_, static_cast<size_t>(total_bytes_));
    throw;
  }
}

std::byte* SharedMemory::slot(int64_t member) const {
  return slots_ + (half_ * size() + member) * slot_bytes_;
}

void SharedMemory::begin(Collective collective, int64_t bytes) {
  if (header_->failed != 0) throw_failure();
  collective_ = collective;
  first_arrival_ = true;
  ++collectives_;
  members_[index_].collective[collectives_ % 2] =
      static_cast<uint64_t>(bytes) * 256 + static_cast<uint64_t>(collective);
}

void SharedMemory::arrive() {
  // Read before counting in: the last one to come changes it.
  const uint32_t generation = header_->generation;
  members_[index_].arrivals = ++arrivals_;
  if (header_->arrived.fetch_add(1) + 1 == size()) {
    header_->arrived = 0;
    header_->generation.fetch_add(1);
    futex_wake_all(header_->generation);
  } else {
    wait_for_others(generation);
  }
  if (header_->failed != 0) throw_failure();
  if (std::exchange(first_arrival_, false)) check_same_collective();
}

void SharedMemory::wait_for_others(uint32_t generation) {
  for (int i = 0; i < kTries; ++i) {
    if (header_->generation != generation) return;
    __builtin_ia32_pause();
  }
  const std::chrono::milliseconds timeout = timeout_;
  const Clock::time_point start = Clock::now();
  while (header_->generation == generation) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    if (waited >= timeout) {
      const std::vector<int64_t> missing = late();
      fail(format("{} {} not arrived in {} after {}", ranks_text(missing),
                  missing.size() == 1 ? "has" : "have", place(), seconds_text(timeout)));
      return;
    }
    futex_wait(header_->generation, generation, std::min(kLookInterval, timeout - waited));
    look_for_gone();
  }
}

void SharedMemory::look_for_gone() {
  // One waiter looks for all.
  const int64_t now =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch()).count();
  int64_t looked = header_->looked;
  if (now - looked < kLookInterval.count() || !header_->looked.compare_exchange_strong(looked, now)) return;
  for (int64_t i = 0; i < size(); ++i) {
    const Member& member = members_[i];
    if (member.pid == 0 || member.arrivals >= arrivals_) continue;
    const int64_t start = start_of_process(member.pid);
    if (start != 0 && start == member.start) continue;
    // It may have arrived just before it ended.
    if (member.arrivals >= arrivals_) continue;
    fail(format("{}: rank {} (process {}) is gone", place(), ranks_[static_cast<size_t>(i)],
                member.pid.load()));
    return;
  }
}

void SharedMemory::check_same_collective() {
  const int64_t other = (index_ + 1) % size();
  const uint64_t mine = members_[index_].collective[collectives_ % 2];
  const uint64_t theirs = members_[other].collective[collectives_ % 2];
  if (mine == theirs) return;
  const auto text = [&](int64_t member, uint64_t collective) {
    return format("rank {} is in {} of {} bytes", ranks_[static_cast<size_t>(member)],
                  collective_name(static_cast<Collective>(collective % 256)), collective / 256);
  };
  fail(format("group {} is not in one collective: {}, {}", name_, text(index_, mine), text(other, theirs)));
  throw_failure();
}

std::vector<int64_t> SharedMemory::late() const {
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < size(); ++i) {
    if (members_[i].arrivals < arrivals_) ranks.push_back(ranks_[static_cast<size_t>(i)]);
  }
  return ranks;
}

std::string SharedMemory::place() const {
  return format("{} over group {}", collective_name(collective_), name_);
}

void SharedMemory::fail(std::string_view message) {
  uint32_t expected = 0;
  if (header_->failed.compare_exchange_strong(expected, 1)) {
    const size_t length = std::min(message.size(), sizeof(header_->message) - 1);
    std::memcpy(header_->message, message.data(), length);
    header_->message[length] = 0;
    header_->failed = 2;
  }
  header_->generation.fetch_add(1);
  futex_wake_all(header_->generation);
}

void SharedMemory::throw_failure() const {
  // Who writes the message may die over it.
  for (int i = 0; header_->failed != 2; ++i) {
    if (i == 1000) throw PeerError("group {} has failed", name_);
    usleep(1000);
  }
  throw PeerError("{}", header_->message);
}

}  // namespace titan
