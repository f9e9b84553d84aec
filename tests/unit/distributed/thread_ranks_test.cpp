#include "tests/unit/distributed/thread_ranks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include <array>

namespace titan {
namespace {

constexpr std::chrono::milliseconds kShort(50);

}  // namespace

TEST_CASE("a group of threads gathers and scatters rows that do not divide") {
  tests::run_ranks(3, [](Group& group) {
    const Range mine = chunk_of(5, 3, group.index());
    const at::Tensor whole = at::arange(10, at::kFloat).view({5, 2});
    at::Tensor out = at::empty({5, 2});
    group.all_gather({out}, {whole.narrow(0, mine.begin, mine.count).contiguous()}).wait();
    CHECK(out.equal(whole));

    at::Tensor part = at::empty({mine.count, 2});
    group.reduce_scatter({part}, {whole.mul(static_cast<double>(group.index() + 1))}).wait();
    CHECK(part.equal(whole.narrow(0, mine.begin, mine.count).mul(6)));
    CHECK(group.counters().all_gather_bytes == (10 - mine.count * 2) * 4);
  });
}

TEST_CASE("a group of threads reduces in rank order") {
  tests::run_ranks(2, [](Group& group) {
    at::Tensor t = at::full({3}, static_cast<double>(group.index() + 1));
    group.all_reduce(t).wait();
    CHECK(t.equal(at::full({3}, 3.0)));
    group.all_reduce(t.mul_(static_cast<double>(group.index())), ReduceOp::max).wait();
    CHECK(t.equal(at::full({3}, 3.0)));
  });
}

TEST_CASE("a rank that throws or returns ends the others' wait, and the cause is what comes out") {
  const auto outcome = [](bool throws) {
    try {
      tests::run_ranks(3, [&](Group& group) {
        group.barrier();
        if (group.index() != 2) group.barrier();
        if (throws && group.index() == 2) throw std::logic_error("the cause");
      });
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(outcome(true) == "the cause");
  CHECK(outcome(false) == "rank 2 of a group of threads has left it");
}

TEST_CASE("ranks that wait for each other in two groups fail together") {
  tests::run_ranks(2, [meetings = std::array{std::make_shared<tests::Meeting>(2, kShort),
                                             std::make_shared<tests::Meeting>(2, kShort)}](int64_t rank) {
    const auto& mine = meetings[static_cast<size_t>(rank)];
    const std::string missing = "rank " + std::to_string(1 - rank) + " of a group of threads did not arrive";
    CHECK_THROWS_WITH_AS(mine->arrive(rank), doctest::Contains(missing.c_str()), tests::RankMissing);
    CHECK_THROWS_WITH_AS(mine->arrive(rank), doctest::Contains(missing.c_str()), tests::RankMissing);
  });
}

}  // namespace titan
