#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "titan/distributed/world.h"

namespace c10d {
class Store;
}

namespace titan {

/// The meeting of all ranks of a job at MASTER_ADDR:MASTER_PORT. Keys in the store there carry the run id and
/// the restart count, so that what earlier tries left is not seen.
class Rendezvous {
 public:
  /// Returns when all ranks are there. ValueError naming the address, the port and the ranks that are missing
  /// when they do not come in `timeout`.
  Rendezvous(const Launch& launch, std::chrono::milliseconds timeout);
  /// Rank 0, where it holds the store, waits a while for the others to leave first.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// The job's keys that begin with `prefix`.
  c10::intrusive_ptr<c10d::Store> store(const std::string& prefix) const;

  /// For each rank what says whether it can share memory with another: same launcher, same machine.
  const std::vector<std::string>& nodes() const;
  /// Whether all ranks are on one machine.
  bool one_machine() const;

 private:
  void leave(std::chrono::milliseconds limit);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace titan
