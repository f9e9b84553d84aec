#include "titan/nn/placement.h"

#include <doctest/doctest.h>

#include <vector>

namespace titan {

TEST_CASE("chunks are cut as torch.chunk does: the last ones are shorter or empty") {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < 4; ++i) counts.push_back(chunk_of(2047, 4, i).count);
  CHECK(counts == std::vector<int64_t>{512, 512, 512, 511});
  CHECK(chunk_of(5, 4, 2).count == 1);
  CHECK(chunk_of(5, 4, 3).count == 0);
  CHECK(chunk_of(5, 4, 3).begin == 5);
}

TEST_CASE("a chunk of a chunk keeps the weight's own coordinates") {
  const Block rows = Block::whole({10, 6}).chunk(0, 2, 1);
  CHECK(rows == Block{{5, 0}, {5, 6}});
  CHECK(rows.chunk(1, 3, 2) == Block{{5, 4}, {5, 2}});
  CHECK(rows.chunk(0, 2, 1) == Block{{8, 0}, {2, 6}});
}

}  // namespace titan
