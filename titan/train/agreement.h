#pragma once

#include <cstdint>
#include <vector>

#include "titan/distributed/world.h"
#include "titan/nn/module.h"

// [Note: what ranks agree on]
// Every rank takes the same decisions at the same point, or some would wait for others forever. Two small
// collectives a step carry what they need: one before the forward (how many labels count, whether anybody has
// data left, whether anybody was asked to stop), one after the backward (loss and gradient norm). Both are
// all-gathers over every rank, added up in rank order by each, so that all have the same bits.
namespace titan {

/// What a rank brings to a step.
struct StepOffer {
  int64_t valid_tokens = 0;  ///< labels that count, in its rows
  bool has_data = false;     ///< its rows are not all padding
  int signal = 0;            ///< the signal that asked it to stop, or 0
};

/// What all ranks know before the step; the same on each.
struct StepPlan {
  int64_t valid_tokens = 0;  ///< of the whole global batch
  bool has_data = false;
  int signal = 0;
};

StepPlan agree_on_step(World& world, const StepOffer& mine);

/// What a rank's forward and backward gave.
struct RankLoss {
  double share = 0;         ///< its part of the global mean: loss sum / valid tokens of the global batch
  double mean = 0;          ///< the mean over its own valid tokens; 0 where it had none
  double squared_norm = 0;  ///< of the gradients it counts, see counted_squared_norm()
};

/// The step's numbers; the same on every rank.
struct StepLoss {
  double avg_loss = 0;   ///< mean over all valid tokens of all micro-batches and ranks
  double max_loss = 0;   ///< the largest of the data-parallel ranks' own means
  double grad_norm = 0;  ///< of the whole gradient, before clipping
};

StepLoss agree_on_loss(World& world, const RankLoss& mine);

/// Sum of squares of this rank's gradients, each element of the whole model counted by exactly one rank:
/// copies along dp_replicate, and along tp weights that are not cut, are counted at coordinate 0.
double counted_squared_norm(const std::vector<Module::NamedParameter>& parameters, const Mesh& mesh);

/// One row of numbers from every rank, in rank order.
std::vector<std::vector<double>> gather_numbers(World& world, const std::vector<double>& mine);

}  // namespace titan
