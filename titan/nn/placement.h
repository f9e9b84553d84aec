#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace titan {

/// A rectangular part of a weight, in the weight's own coordinates.
struct Block {
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;

  /// The block that is all of a weight of that shape.
  static Block whole(std::vector<int64_t> shape);

  /// The part of this block that chunk `index` of `count` along `dim` is; cut as chunk_of() says.
  Block chunk(int64_t dim, int64_t count, int64_t index) const;

  int64_t numel() const;
  bool operator==(const Block&) const = default;
};

/// A range of a dimension.
struct Range {
  int64_t begin = 0;
  int64_t count = 0;
};

/// Chunk `index` when `size` entries are cut into `count` chunks of ceil(size / count), as torch.chunk does:
/// the last ones are shorter or empty.
Range chunk_of(int64_t size, int64_t count, int64_t index);

/// How a weight lies on the tensor-parallel axis.
struct TensorPlacement {
  /// The dimension cut into one chunk a rank; none: every rank holds all of it.
  std::optional<int64_t> dim;
  /// Every rank holds all of it but sees only a part of the tokens or heads: gradients are summed over the
  /// axis.
  bool partial_gradient = false;
};

}  // namespace titan
