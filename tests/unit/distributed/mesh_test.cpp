#include "titan/distributed/mesh.h"

#include <doctest/doctest.h>

#include <vector>

#include "titan/base/error.h"

namespace titan {
namespace {

using Ranks = std::vector<int64_t>;

std::string refusal(ParallelDims degrees) {
  try {
    ParallelDims::resolve(degrees);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("degrees that do not multiply to the number of ranks are refused in the reference's words") {
  CHECK(refusal({.dp_replicate = 2, .dp_shard = 3, .world_size = 4}) ==
        "Invalid parallel dims: dp_replicate(2) * dp_shard(3) * cp(1) * tp(1) * pp(1) != WORLD_SIZE(4)");
  CHECK(refusal({.dp_shard = 4, .world_size = 4}) == "accepted");
}

TEST_CASE("degrees below one are refused by the name of their field") {
  const auto names = [](const std::string& text, const std::string& field) {
    return text.starts_with("parallelism." + field + " is ");
  };
  CHECK(names(refusal({.dp_replicate = 0}), "data_parallel_replicate_degree"));
  CHECK(names(refusal({.dp_shard = 0}), "data_parallel_shard_degree"));
  CHECK(names(refusal({.dp_shard = -2}), "data_parallel_shard_degree"));
  CHECK(names(refusal({.cp = -1}), "context_parallel_degree"));
  CHECK(names(refusal({.tp = 0}), "tensor_parallel_degree"));
  CHECK(names(refusal({.pp = -3}), "pipeline_parallel_degree"));
  CHECK(names(refusal({.ep = 0}), "expert_parallel_degree"));
  CHECK(names(refusal({.dp_shard = 4, .ep = 3, .world_size = 4}), "expert_parallel_degree"));
}

TEST_CASE("a shard degree of -1 is what the other degrees leave") {
  CHECK(ParallelDims::resolve({.dp_replicate = 2, .dp_shard = -1, .tp = 2, .world_size = 24}).dp_shard == 6);
  CHECK(ParallelDims::resolve({.dp_shard = -1}).dp_shard == 1);
  const std::string text = refusal({.dp_shard = -1, .tp = 3, .world_size = 4});
  CHECK(text.find("tp(3)") != std::string::npos);
  CHECK(text.find("does not divide WORLD_SIZE(4)") != std::string::npos);
}

TEST_CASE("degrees whose product overflows are refused") {
  constexpr int64_t kHuge = int64_t{1} << 62;
  CHECK(refusal({.dp_replicate = kHuge, .dp_shard = kHuge, .tp = kHuge, .world_size = 4}) != "accepted");
  CHECK(refusal({.dp_shard = kHuge, .tp = 4, .world_size = 4}) != "accepted");
  CHECK(refusal({.dp_replicate = kHuge, .dp_shard = -1, .tp = 4, .world_size = 4}) != "accepted");
}

TEST_CASE("ranks count with tp innermost and pp outermost") {
  const ParallelDims dims =
      ParallelDims::resolve({.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2, .world_size = 32});
  const Mesh mesh(dims, 13);  // 0 1 1 0 1
  CHECK(mesh.coordinate(Axis::pp) == 0);
  CHECK(mesh.coordinate(Axis::dp_replicate) == 1);
  CHECK(mesh.coordinate(Axis::dp_shard) == 1);
  CHECK(mesh.coordinate(Axis::cp) == 0);
  CHECK(mesh.coordinate(Axis::tp) == 1);
  CHECK(mesh.coordinate(Axis::batch) == 3);
  CHECK(mesh.coordinate(Axis::loss) == 6);
  CHECK(mesh.coordinate(Axis::fsdp) == 2);
  CHECK(mesh.coordinate(Axis::all) == 13);
  CHECK(mesh.peers(Axis::tp) == Ranks{12, 13});
  CHECK(mesh.peers(Axis::pp) == Ranks{13, 29});
  CHECK(mesh.peers(Axis::cp) == Ranks{13, 15});
  CHECK(mesh.peers(Axis::fsdp) == Ranks{9, 11, 13, 15});
  CHECK(mesh.peers(Axis::batch) == Ranks{1, 5, 9, 13});
  CHECK(mesh.peers(Axis::loss) == Ranks{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(mesh.peers(Axis::all).size() == 32);
}

TEST_CASE("every rank is its own peer at the place that its coordinate says") {
  const ParallelDims dims =
      ParallelDims::resolve({.dp_replicate = 3, .dp_shard = 2, .tp = 2, .world_size = 12});
  for (int64_t rank = 0; rank < 12; ++rank) {
    const Mesh mesh(dims, rank);
    for (const Axis axis : {Axis::pp, Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp, Axis::batch,
                            Axis::loss, Axis::fsdp, Axis::all}) {
      const Ranks peers = mesh.peers(axis);
      CHECK(static_cast<int64_t>(peers.size()) == dims.degree(axis));
      CHECK(peers.at(static_cast<size_t>(mesh.coordinate(axis))) == rank);
    }
  }
}

TEST_CASE("the degrees are told in the reference's words") {
  const ParallelDims dims = ParallelDims::resolve({.dp_shard = 4, .tp = 2, .world_size = 8});
  CHECK(dims.text() == "pp=1, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=1");
  CHECK(dims.active() == "['dp_shard', 'tp']");
  CHECK(ParallelDims{}.active() == "[]");
}

}  // namespace titan
