#include "titan/nn/placement.h"

#include <algorithm>
#include <utility>

#include "titan/base/error.h"

namespace titan {

Block Block::whole(std::vector<int64_t> shape) {
  std::vector<int64_t> offset(shape.size(), 0);
  return {std::move(offset), std::move(shape)};
}

Block Block::chunk(int64_t dim, int64_t count, int64_t index) const {
  const auto d = static_cast<size_t>(dim);
  check(dim >= 0 && d < shape.size(), "a block is cut along one of its dimensions");
  const Range range = chunk_of(shape[d], count, index);
  Block part = *this;
  part.offset[d] += range.begin;
  part.shape[d] = range.count;
  return part;
}

int64_t Block::numel() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

Range chunk_of(int64_t size, int64_t count, int64_t index) {
  check(count > 0 && index >= 0 && index < count, "a chunk's index lies below their number");
  const int64_t step = (size + count - 1) / count;
  const int64_t begin = std::min(size, index * step);
  return {begin, std::min(size, begin + step) - begin};
}

}  // namespace titan
