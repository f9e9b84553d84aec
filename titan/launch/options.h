#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "titan/launch/endpoint.h"

namespace titan {

/// Which of a worker's streams a setting means: 0 none, 1 stdout, 2 stderr, 3 both; one value for all local
/// ranks or a map.
struct StreamChoice {
  int everyone = 0;
  std::map<int64_t, int> by_rank;  ///< when not empty, ranks that are not in it have 0

  bool out(int64_t local_rank) const { return (value(local_rank) & 1) != 0; }
  bool err(int64_t local_rank) const { return (value(local_rank) & 2) != 0; }
  /// "3" or "0:3,1:1". Throws ConfigError that names `flag`.
  static StreamChoice parse(std::string_view text, std::string_view flag);

 private:
  int value(int64_t local_rank) const;
};

enum class RendezvousBackend { c10d, fixed };

/// Everything that `titan torchrun` was told, by flags and PET_* variables, checked.
struct TorchrunOptions {
  int64_t min_nodes = 1, max_nodes = 1;
  int64_t local_world_size = 1;

  RendezvousBackend backend = RendezvousBackend::c10d;
  Endpoint endpoint;  ///< port 0: choose a free one on this node
  std::string run_id;
  RendezvousTimes times;
  std::optional<bool> is_host;
  int64_t node_rank = 0;  ///< only with the static backend
  std::string local_addr;

  int64_t max_restarts = 0;
  std::chrono::seconds shutdown_timeout{30};
  std::vector<int> signals;  ///< handled and passed on to the workers
  bool virtual_local_rank = false;

  std::string role = "default";
  StreamChoice tee, redirects;
  std::string log_dir;  ///< "" for a temporary one
  std::set<int64_t> local_ranks_filter;
  std::vector<std::string> stdout_filters, stderr_filters;

  bool no_python = false, module = false;
  std::string program;  ///< of the command line: a module or a program
  std::vector<std::string> program_args;

  std::vector<std::string> warnings;  ///< settings that have no effect here
  bool help = false;
};

/// Reads flags, and PET_<NAME> for those that are not given. Throws ConfigError for anything unknown, refused
/// or without sense.
TorchrunOptions parse_torchrun_options(std::span<const std::string> args);

/// The usage and one line for each flag.
std::string torchrun_help();

}  // namespace titan
