#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// Axes of the mesh and axes derived from them. Ranks count with pp outermost, then dp_replicate, dp_shard,
/// cp, and tp innermost.
enum class Axis {
  pp,
  dp_replicate,
  dp_shard,
  cp,
  tp,
  batch,  ///< dp_replicate x dp_shard: ranks that read different rows
  loss,   ///< batch x cp: ranks whose losses add up to the step's
  fsdp,   ///< dp_shard x cp: ranks that share one copy of the weights
  all,    ///< every rank
};

/// Degrees of the mesh's axes; their product is the number of ranks.
struct ParallelDims {
  int64_t pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1, ep = 1;
  int64_t world_size = 1;

  /// Checks the degrees against `world_size` ranks and fills in dp_shard -1. ConfigError that names the field
  /// and what was given: a degree of 0 or below (dp_shard may be -1), and with the reference's text a product
  /// that is not the number of ranks.
  static ParallelDims resolve(ParallelDims degrees);

  int64_t degree(Axis axis) const;

  /// "pp=1, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=1".
  std::string text() const;
  /// The axes with more than one rank, in the reference's wording: ['dp_shard', 'tp'].
  std::string active() const;
};

/// The ranks arranged by their degrees.
class Mesh {
 public:
  Mesh(ParallelDims dims, int64_t rank);

  const ParallelDims& dims() const { return dims_; }
  int64_t rank() const { return rank_; }

  /// This rank's place on an axis.
  int64_t coordinate(Axis axis) const;

  /// The ranks that differ from this one only along `axis`, ascending; this one among them.
  std::vector<int64_t> peers(Axis axis) const;

 private:
  ParallelDims dims_;
  int64_t rank_;
};

std::string_view axis_name(Axis axis);

}  // namespace titan
