#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "titan/distributed/group.h"
#include "titan/distributed/mesh.h"

namespace titan {

/// This process's place in its job, as torchrun tells it: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
/// GROUP_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE, TORCHELASTIC_RUN_ID,
/// TORCHELASTIC_RESTART_COUNT.
struct Launch {
  int64_t rank = 0, world_size = 1;
  int64_t local_rank = 0, local_world_size = 1;
  int64_t group_rank = 0;  ///< which launcher (node) started it
  std::string master_addr;
  int64_t master_port = 0;
  /// The store at master_addr is the launcher's; else rank 0 opens it.
  bool agent_store = false;
  std::string run_id;
  int64_t restart_count = 0;

  /// One process when WORLD_SIZE is unset. ConfigError naming the variable that is missing or makes no sense.
  static Launch from_env();
};

/// The job's ranks and the groups among them.
class World {
 public:
  /// Meets the other ranks. ValueError naming address, port and the ranks that are missing when they do not
  /// come in `timeout`.
  World(const Launch& launch, const ParallelDims& dims, std::chrono::milliseconds timeout);
  ~World();

  const Mesh& mesh() const { return mesh_; }
  const Launch& launch() const { return launch_; }

  /// The group of this rank along an axis; axes with the same ranks share one. Made on first use, by all
  /// members at the same point of the program.
  Group& group(Axis axis);

  /// From now on a collective fails after that long.
  void set_timeout(std::chrono::milliseconds timeout);

  /// What all groups of this rank have carried.
  GroupCounters counters() const;

 private:
  struct Impl;
  Launch launch_;
  Mesh mesh_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace titan
