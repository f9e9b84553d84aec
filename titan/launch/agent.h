#pragma once

#include "titan/launch/options.h"
#include "titan/launch/worker_group.h"

namespace titan {

/// Runs one node's part of a job until the job ends. Returns 0, or 128 + a signal's number where one ended
/// it; throws ValueError that tells the first failure.
int run_launcher(const TorchrunOptions& options, const WorkerGroup::Program& program);

}  // namespace titan
