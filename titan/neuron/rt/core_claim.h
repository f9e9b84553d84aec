#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace titan::neuron {

/// What a process tells others about its logical core, in memory that `titan devices` maps. Written by plain
/// stores of the owner; a reader may see numbers of neighbouring moments.
struct CoreReport {
  std::atomic<int64_t> pid, rank, local_rank, world_size, lnc;
  std::atomic<int64_t> hbm_capacity, hbm_allocated, hbm_peak;
  std::atomic<int64_t> compilations;
  char command[240];  ///< the process's command line, cut, null-terminated
};

/// A copy of a live process's report.
struct CoreUse {
  int64_t core = 0;
  int64_t pid = 0, rank = 0, local_rank = 0, world_size = 1, lnc = 2;
  int64_t hbm_capacity = 0, hbm_allocated = 0, hbm_peak = 0;
  int64_t compilations = 0;
  std::string command;
};

/// This process's hold on one logical core: until it ends (however it ends) no other process of this user can
/// take it. With LNC 1 and LNC 2 side by side, cores that share a physical core exclude each other too.
/// Programs that this process starts do not hold it; a forked copy of it would, as long as it runs.
class CoreClaim {
 public:
  /// ConfigError naming the core and the process that has it; ValueError when the state folder has no room.
  /// The report then has this process's id, command and `lnc`; the rest is the caller's to fill in.
  CoreClaim(int64_t core, int64_t lnc);
  ~CoreClaim();
  CoreClaim(const CoreClaim&) = delete;
  CoreClaim& operator=(const CoreClaim&) = delete;

  int64_t core() const { return core_; }
  CoreReport& report() { return *report_; }

 private:
  explicit CoreClaim(int64_t core) : core_(core) {}

  int64_t core_;
  std::vector<int> files_;
  CoreReport* report_ = nullptr;
};

/// The folder of the claims, made when missing: $TITAN_NEURON_STATE_DIR (another emulated machine beside the
/// usual one), else one in /dev/shm that belongs to this user. ConfigError when it cannot be used: a link,
/// another user's, or open for others to write.
std::filesystem::path state_folder();

/// Live processes by ascending physical core. Nothing is created or locked and nothing is waited for.
/// ConfigError when there is a state folder that cannot be used.
std::vector<CoreUse> cores_in_use();

}  // namespace titan::neuron
