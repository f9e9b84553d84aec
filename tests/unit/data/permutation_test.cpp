#include "titan/data/permutation.h"

#include <doctest/doctest.h>

#include <vector>

using namespace titan;

namespace {
std::vector<uint64_t> order_of(uint64_t size, uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < size; ++i) order.push_back(permutation(i));
  return order;
}
}  // namespace

TEST_CASE("a permutation reaches each element exactly once, whatever the size") {
  for (const uint64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 1025}) {
    std::vector<int> seen(size);
    for (const uint64_t element : order_of(size, 7)) {
      REQUIRE(element < size);
      ++seen[element];
    }
    CHECK(seen == std::vector<int>(size, 1));
  }
}

TEST_CASE("a permutation is a function of its key") {
  CHECK(order_of(100, 1) == order_of(100, 1));
  CHECK(order_of(100, 1) != order_of(100, 2));
}

TEST_CASE("a permutation leaves few elements near their place") {
  // Of a uniformly random order of 1,000, 20 land within 10 places on average, with a deviation below 5.
  const auto order = order_of(1000, 42);
  int near = 0;
  for (uint64_t i = 0; i < order.size(); ++i) near += order[i] + 10 > i && order[i] < i + 10;
  CHECK(near > 0);
  CHECK(near < 45);
}
