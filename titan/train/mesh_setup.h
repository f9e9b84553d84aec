#pragma once

#include <memory>

#include "titan/base/json.h"
#include "titan/distributed/world.h"
#include "titan/train/trainer_config.h"

namespace titan {

/// The mesh that the configuration asks for on that many ranks, checked against model and batch before
/// anybody communicates: every rank finds the same mistake. ConfigError naming the fields.
ParallelDims resolve_mesh(const TrainerConfig& config, int64_t world_size);

/// CommonError naming the ranks whose configuration is not rank 0's: they would wait for one another in
/// different places, or train something that nobody asked for.
void require_same_config(World& world, const Json& config);

/// Meets the other ranks, with comm.init_timeout_seconds.
std::unique_ptr<World> meet_ranks(const Launch& launch, const ParallelDims& dims, const CommConfig& comm);

}  // namespace titan
