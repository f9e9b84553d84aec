#include "titan/base/hints.h"

#include <doctest/doctest.h>

using namespace titan;

TEST_CASE("a hint and the names there are make one sentence or two") {
  CHECK(did_you_mean_of("rop", {"rope", "norm"}, "it has") == "; did you mean rope? It has rope, norm");
  CHECK(did_you_mean_of("attention", {"rope", "norm"}, "it has") == "; it has rope, norm");
  CHECK(did_you_mean_of("rope", {}, "there are") == "; there are none");
}
