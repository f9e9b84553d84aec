#include "titan/nki/run_observer.h"

#include <doctest/doctest.h>

#include <vector>

#include "titan/nki.h"
#include "titan/nki/error.h"

namespace titan::nki {
namespace {

namespace nl = language;
namespace nisa = isa;

/// Two instructions; a kernel that asks for another is stopped before it.
void observed_kernel(bool is_wrong) {
  const Tensor tile = nl::ndarray({128, 4}, nl::float32);
  nisa::memset(tile, 1);
  nisa::tensor_scalar(tile, tile, nl::add, 1.0);
  if (is_wrong) tile(200);
}

void outer_kernel(bool is_wrong) { simulate(observed_kernel)(is_wrong); }

TEST_CASE("an observer is given the instructions of every kernel that ends well, once, while it lives") {
  std::vector<size_t> seen;  // instructions of each core of each run
  {
    const RunObserver observer([&](const KernelRun& run) {
      for (const CoreRecord& core : run.cores) seen.push_back(core.instructions.size());
    });
    simulate(observed_kernel)(false);
    CHECK(seen == std::vector<size_t>{2});
    simulate(observed_kernel)[2](false);
    CHECK(seen == std::vector<size_t>{2, 2, 2});
    simulate(outer_kernel)(false);
    CHECK(seen == std::vector<size_t>{2, 2, 2, 2});
    CHECK_THROWS_AS(simulate(observed_kernel)(true), KernelError);
    CHECK(seen.size() == 4);
  }
  simulate(observed_kernel)(false);
  CHECK(seen.size() == 4);
  CHECK(RunObserver::current() == nullptr);
}

}  // namespace
}  // namespace titan::nki
