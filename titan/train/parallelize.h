#pragma once

#include <memory>

#include "titan/distributed/fsdp.h"
#include "titan/distributed/world.h"
#include "titan/models/common/language_model.h"
#include "titan/train/parallelism_config.h"

namespace titan {

/// The part of a described model that this member of the tensor-parallel `ranks` has, and its communication
/// with the others, which borrows the group. To be called before allocate().
void cut_over_tensor_ranks(LanguageModel& model, Group& ranks, const ParallelismConfig& config);

/// Lays a described model over the mesh: which block of each weight this rank keeps, and what happens around
/// the modules' forwards under tensor parallelism. To be called before allocate().
void lay_out(LanguageModel& model, World& world, const ParallelismConfig& config);

/// The allocated model's FSDP or HSDP; nullptr where every weight stays whole on its rank.
std::unique_ptr<FullyShardedModel> shard_fully(LanguageModel& model, World& world,
                                               const ParallelismConfig& config, at::ScalarType param_dtype);

}  // namespace titan
