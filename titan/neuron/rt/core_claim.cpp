#include "titan/neuron/rt/core_claim.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/neuron/rt/instance.h"

// [Note: claims] Each physical core has a file in the state folder, and who holds a logical core holds locks
// on the files of its physical cores. The locks are those of open file descriptions (F_OFD_SETLK): like
// flock's they end with the process, however it ends, but others can ask for them without taking one for a
// moment, which would make a process that claims the core just then fail. The report is in the first of the
// files; the others are empty. Nobody removes a file: a lock on a removed file would exclude nobody.

namespace titan::neuron {

namespace fs = std::filesystem;

namespace {

constexpr const char* kStateVariable = "TITAN_NEURON_STATE_DIR";

/// A CoreReport as plain bytes, for readers: a file may be cut while it is read, so that it is not mapped.
struct ReportBytes {
  int64_t pid, rank, local_rank, world_size, lnc, hbm_capacity, hbm_allocated, hbm_peak, compilations;
  char command[sizeof(CoreReport::command)];
};
static_assert(sizeof(ReportBytes) == sizeof(CoreReport) && std::atomic<int64_t>::is_always_lock_free);

fs::path state_path() {
  if (const auto given = env(kStateVariable)) {
    const fs::path folder = fs::path(*given).lexically_normal();
    return folder.has_filename() ? folder : folder.parent_path();  // without a last slash
  }
  return fs::path("/dev/shm") / format("titan-neuron-{}", ::geteuid());
}

fs::path file_of(const fs::path& folder, int64_t physical_core) {
  return folder / format("core-{}", physical_core);
}

/// ConfigError unless the folder is this user's own, where no other user can change anything. False when
/// there is none.
bool is_usable_state_folder(const fs::path& folder) {
  const auto refuse = [&](std::string_view why) {
    throw ConfigError(
        "{}, the folder of the emulated Neuron cores' claims, {}; set {} to a folder of your own (mode 0700)",
        folder.string(), why, kStateVariable);
  };
  struct stat info{};
  if (::lstat(folder.c_str(), &info) != 0) {
    if (errno != ENOENT) refuse(format("cannot be used: {}", std::strerror(errno)));
    return false;
  }
  if (S_ISLNK(info.st_mode)) refuse("is a symbolic link");
  if (!S_ISDIR(info.st_mode)) refuse("is no folder");
  if (info.st_uid != ::geteuid()) refuse(format("belongs to another user (uid {})", info.st_uid));
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) refuse("can be written by other users");
  return true;
}

/// The whole file's lock, or a question about it, for fcntl.
struct flock whole_file(short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// The report of the process that holds a physical core whose file is the first of its claim.
std::optional<ReportBytes> read_claim(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct flock lock = whole_file(F_RDLCK);
  ReportBytes report{};
  const bool held = ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  const bool whole = held && ::pread(fd, &report, sizeof report, 0) == static_cast<ssize_t>(sizeof report);
  ::close(fd);
  if (!whole || report.pid <= 0 || (report.lnc != 1 && report.lnc != 2)) return std::nullopt;
  return report;
}

/// A command line in one line of valid text.
std::string shown_command(const ReportBytes& report) {
  std::string command(report.command, ::strnlen(report.command, sizeof report.command));
  for (char& c : command) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  while (const auto at = find_invalid_utf8(command)) command[*at] = '?';
  return command;
}

/// This process's command line, cut to what a report holds.
void write_command(CoreReport& report) {
  std::string command = read_file("/proc/self/cmdline");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::replace(command.begin(), command.end(), '\0', ' ');
  const size_t size = std::min(command.size(), sizeof report.command - 1);
  std::memcpy(report.command, command.data(), size);
  report.command[size] = '\0';
}

/// Who holds a physical core, for a message.
std::string holder_of(int64_t physical_core) {
  for (const CoreUse& use : cores_in_use()) {
    if (physical_core / use.lnc != use.core) continue;
    return format("process {} (rank {}, {}; it has core {} at LNC {})", use.pid, use.rank, use.command,
                  use.core, use.lnc);
  }
  return "a process that is just beginning";
}

[[noreturn]] void refuse_claim(int64_t core, int64_t lnc, int64_t physical_core) {
  throw ConfigError(
      "core {} (LNC {}) of the emulated Neuron device is in use by {}. Let this one use other cores "
      "(NEURON_RT_VISIBLE_CORES; `titan devices` shows which are free), wait until that one ends, or set {} "
      "to "
      "another folder for an emulated machine of its own",
      core, lnc, holder_of(physical_core), kStateVariable);
}

[[noreturn]] void refuse_file(const fs::path& file, int error) {
  const bool odd = error == ELOOP || error == EISDIR || error == ESPIPE || error == ENXIO;
  throw ConfigError("cannot write {}, a claim of an emulated Neuron core: {}; {}set {} to another folder",
                    file.string(), odd ? "it is no file" : std::strerror(error), odd ? "remove it, or " : "",
                    kStateVariable);
}

/// Opens and locks a physical core's file. -1 when another one has it; ConfigError when there can be no file.
int lock_core(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) refuse_file(file, errno);
  struct stat info{};
  if (::fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)) {
    ::close(fd);
    refuse_file(file, ESPIPE);
  }
  struct flock lock = whole_file(F_WRLCK);
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return fd;
  const int error = errno;
  ::close(fd);
  if (error == EAGAIN || error == EACCES) return -1;
  throw ConfigError("cannot lock {}: {}; set {} to a folder of another file system", file.string(),
                    std::strerror(error), kStateVariable);
}

/// An empty report in the file's memory, which is allocated now: a full file system would otherwise end the
/// process at the first store.
CoreReport* map_report(int fd, const fs::path& file) {
  void* memory = MAP_FAILED;
  int error = ::posix_fallocate(fd, 0, sizeof(CoreReport));
  if (error == 0) {
    memory = ::mmap(nullptr, sizeof(CoreReport), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    throw ConfigError("cannot write {}: {}; set {} to a folder with room", file.string(),
                      std::strerror(error), kStateVariable);
  }
  return new (memory) CoreReport{};
}

}  // namespace

fs::path state_folder() {
  const fs::path folder = state_path();
  if (is_usable_state_folder(folder)) return folder;
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  // Another rank may make it in between; whose it is then is looked at like any other's.
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw ConfigError(
        "cannot make {}, the folder of the emulated Neuron cores' claims: {}; set {} to another one",
        folder.string(), std::strerror(errno), kStateVariable);
  }
  check(is_usable_state_folder(folder), "a folder that was just made is there");
  return folder;
}

// The destructor of a claim that is refused half way runs, because another constructor has finished.
CoreClaim::CoreClaim(int64_t core, int64_t lnc) : CoreClaim(core) {
  constexpr int64_t kPhysicalCores = Instance::kChips * Instance::kPhysicalCoresPerChip;
  check((lnc == 1 || lnc == 2) && core >= 0 && (core + 1) * lnc <= kPhysicalCores, "the core exists");
  const fs::path folder = state_folder();
  for (int64_t physical = core * lnc; physical < (core + 1) * lnc; ++physical) {
    const fs::path file = file_of(folder, physical);
    const int fd = lock_core(file);
    if (fd < 0) refuse_claim(core, lnc, physical);
    files_.push_back(fd);
    // What an earlier process left in another file than the first would be taken for a report.
    if (files_.size() == 1) {
      report_ = map_report(fd, file);
    } else if (::ftruncate(fd, 0) != 0) {
      refuse_file(file, errno);
    }
  }
  write_command(*report_);
  report_->world_size = 1;
  report_->lnc = lnc;
  report_->pid = ::getpid();  // last: readers skip a report without one
}

CoreClaim::~CoreClaim() {
  // Only closed, and nothing is written: a forked copy of this process that ends must not end the claim.
  if (report_ != nullptr) ::munmap(report_, sizeof(CoreReport));
  for (const int fd : files_) ::close(fd);
}

std::vector<CoreUse> cores_in_use() {
  std::vector<CoreUse> uses;
  const fs::path folder = state_path();
  if (!is_usable_state_folder(folder)) return uses;
  for (int64_t physical = 0; physical < Instance::kChips * Instance::kPhysicalCoresPerChip; ++physical) {
    const auto report = read_claim(file_of(folder, physical));
    if (!report) continue;
    uses.push_back({.core = physical / report->lnc,
                    .pid = report->pid,
                    .rank = report->rank,
                    .local_rank = report->local_rank,
                    .world_size = report->world_size,
                    .lnc = report->lnc,
                    .hbm_capacity = report->hbm_capacity,
                    .hbm_allocated = report->hbm_allocated,
                    .hbm_peak = report->hbm_peak,
                    .compilations = report->compilations,
                    .command = shown_command(*report)});
  }
  return uses;
}

}  // namespace titan::neuron
