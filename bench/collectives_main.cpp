// One rank: prints, from rank 0, the median milliseconds of five runs of each collective that the arguments
// name, as `NAME BYTES` pairs. torchrun's environment; GROUP_RANK decides between shared memory and Gloo.

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "titan/base/error.h"
#include "titan/distributed/world.h"
#include "titan/nn/placement.h"

namespace titan {
namespace {

constexpr int kRuns = 5;

double median_ms(Group& group, const std::string& name, int64_t bytes) {
  const int64_t count = bytes / 4;
  const at::Tensor whole = at::zeros({count});
  const at::Tensor part = at::zeros({chunk_of(count, group.size(), group.index()).count});
  std::vector<double> times;
  // The first run touches the memory.
  for (int run = 0; run <= kRuns; ++run) {
    group.barrier();
    const auto begin = std::chrono::steady_clock::now();
    if (name == "all_gather") group.all_gather({whole}, {part}).wait();
    if (name == "reduce_scatter") group.reduce_scatter({part}, {whole}).wait();
    if (name == "all_reduce") group.all_reduce(whole).wait();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (run > 0) times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  return times[kRuns / 2];
}

}  // namespace
}  // namespace titan

int main(int argc, char** argv) {
  using namespace titan;
  try {
    const Launch launch = Launch::from_env();
    World world(launch, ParallelDims::resolve({.dp_shard = -1, .world_size = launch.world_size}),
                std::chrono::minutes(2));
    for (int i = 1; i + 1 < argc; i += 2) {
      const double time = median_ms(world.group(Axis::all), argv[i], std::stoll(argv[i + 1]));
      if (launch.rank == 0) std::cout << time << std::endl;
    }
    return 0;
  } catch (const ValueError& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
