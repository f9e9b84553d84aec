#include "titan/distributed/shared_memory.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "tests/unit/distributed/thread_ranks.h"
#include "tests/unit/test_device.h"
#include "titan/base/available_memory.h"
#include "titan/base/error.h"
#include "titan/distributed/shared_memory_backend.h"
#include "titan/distributed/shared_memory_group.h"

namespace titan {
namespace {

using std::chrono::milliseconds;

/// No process has this number: it is above the largest that the kernel gives.
constexpr int64_t kNoProcess = int64_t{1} << 30;

/// Runs `member(group)` on a thread for each of `size` members; what each of them threw.
std::vector<std::string> run_members(int64_t size, const std::function<SharedMemoryOptions(int64_t)>& options,
                                     const std::function<void(Group&)>& member) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<int64_t> ranks;
  for (int64_t r = 0; r < size; ++r) ranks.push_back(10 + r);
  std::vector<std::string> errors(static_cast<size_t>(size));
  tests::run_ranks(size, [&](int64_t rank) {
    try {
      SharedMemoryGroup group(*store, "test", ranks, rank, options(rank));
      member(group);
    } catch (const ValueError& error) {
      errors[static_cast<size_t>(rank)] = error.what();
    }
  });
  return errors;
}

SharedMemoryOptions plain(int64_t) { return {.timeout = milliseconds(20'000)}; }

}  // namespace

TEST_CASE("members with small slots give the sum in rank order") {
  // 128 bytes a slot: every collective takes many rounds and uses both halves.
  const auto small = [](int64_t) {
    return SharedMemoryOptions{.timeout = milliseconds(20'000), .slot_bytes = 192};
  };
  const auto errors = run_members(3, small, [](Group& group) {
    const at::Tensor mine = at::arange(700, at::kFloat).view({100, 7}).mul(1.0 + 0.1 * group.index());
    at::Tensor sum = at::arange(700, at::kFloat).view({100, 7});
    for (int64_t r = 1; r < 3; ++r)
      sum = sum.add(at::arange(700, at::kFloat).view({100, 7}).mul(1.0 + 0.1 * r));
    const Range range = chunk_of(100, 3, group.index());
    const at::Tensor part = at::empty({range.count, 7}), reduced = mine.clone(), whole = at::empty({100, 7});
    for (int repeat = 0; repeat < 20; ++repeat) {
      group.reduce_scatter({part}, {mine}).wait();
      group.all_gather({whole}, {part}).wait();
      CHECK(whole.equal(sum));
      group.all_reduce(reduced.copy_(mine)).wait();
      CHECK(reduced.equal(sum));
      group.broadcast(reduced.copy_(mine), 2);
      CHECK(reduced.equal(at::arange(700, at::kFloat).view({100, 7}).mul(1.2)));
    }
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("a group that finds too little memory fails on every member and takes none") {
  const auto poor = [](int64_t) {
    return SharedMemoryOptions{.timeout = milliseconds(20'000), .available_memory = 1'000'000};
  };
  std::atomic<int> made = 0;
  for (const std::string& error : run_members(2, poor, [&](Group&) { ++made; })) {
    CHECK(error == "shared memory of group test: 4,202,496 bytes are needed but only 1,000,000 are left");
  }
  CHECK(made == 0);
}

TEST_CASE("memory that the kernel refuses is an error, not a signal") {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 1'000'000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const auto errors = run_members(2, plain, [](Group&) {});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  for (const std::string& error : errors) {
    CHECK(error == "shared memory of group test: 4,202,496 bytes: File too large");
  }
}

TEST_CASE("a member whose process is gone is named by all others") {
  const auto options = [](int64_t rank) {
    SharedMemoryOptions some = plain(rank);
    if (rank == 1) some.pid = kNoProcess;
    return some;
  };
  const auto errors = run_members(3, options, [](Group& group) {
    if (group.index() != 1) group.all_reduce(at::full({2}, 1.0)).wait();
  });
  for (const size_t member : {0, 2}) {
    CHECK(errors[member] == "all_reduce over group test: rank 11 (process 1073741824) is gone");
  }
}

TEST_CASE("members that are late are named when the time is up, and the group stays failed") {
  const auto hurried = [](int64_t) { return SharedMemoryOptions{.timeout = milliseconds(20'000)}; };
  std::atomic<int> failed = 0;
  const auto errors = run_members(4, hurried, [&](Group& group) {
    group.set_timeout(milliseconds(300));
    if (group.index() % 2 == 0) {
      CHECK_THROWS_AS(group.barrier(), ValueError);
      ++failed;
    }
    while (failed < 2) std::this_thread::sleep_for(milliseconds(1));
    group.all_reduce(at::full({2}, 1.0)).wait();
  });
  for (const std::string& error : errors) {
    CHECK(error == "ranks 11, 13 have not arrived in barrier over group test after 0.3 s");
  }
}

TEST_CASE("members in different collectives are told so") {
  const auto errors = run_members(2, plain, [](Group& group) {
    if (group.index() == 0) group.barrier();
    if (group.index() == 1) group.all_reduce(at::full({2}, 1.0)).wait();
  });
  for (const std::string& error : errors) {
    CHECK(error.starts_with("group test is not in one collective: "));
    CHECK(error.find("rank 10 is in barrier of 0 bytes") != std::string::npos);
    CHECK(error.find("rank 11 is in all_reduce of 8 bytes") != std::string::npos);
  }
}

TEST_CASE("collectives run in the order in which they were started") {
  const auto errors = run_members(2, plain, [](Group& group) {
    const at::Tensor first = at::full({1 << 16}, 1.0);
    Pending large = group.all_reduce(first);
    // The second uses what the first one wrote.
    group.all_reduce(first.narrow(0, 0, 1)).wait();
    large.wait();
    CHECK(first[0].item<float>() == 4);
    CHECK(first[1].item<float>() == 2);
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("what nobody waits for is carried out when the group ends") {
  std::vector<at::Tensor> results(2);
  const auto errors = run_members(2, plain, [&](Group& group) {
    at::Tensor& mine = results[static_cast<size_t>(group.index())];
    mine = at::full({1 << 16}, 1.0);
    group.all_reduce(mine);
  });
  for (const at::Tensor& result : results) CHECK(result.equal(at::full({1 << 16}, 2.0)));
}

TEST_CASE("dtypes without arithmetic are refused by name") {
  const auto errors =
      run_members(2, plain, [](Group& group) { group.all_reduce(at::full({2}, 1, at::kInt)).wait(); });
  // The other one may learn first that this one has ended.
  CHECK(std::count(errors.begin(), errors.end(), "a collective cannot sum Int into Int") >= 1);
}

TEST_CASE("the c10d backend carries out c10d's collectives") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  tests::run_ranks(2, [&](int64_t rank) {
    const auto backend = make_shared_memory_backend(*store, static_cast<int>(rank), 2, plain(rank));
    CHECK(backend->getBackendName() == "titan_shm");
    at::Tensor in = at::full({3}, static_cast<double>(rank + 1)), out = at::empty({6});
    backend->_allgather_base(out, in)->wait();
    CHECK(out[0].item<float>() == 1);
    CHECK(out[5].item<float>() == 2);
    std::vector<at::Tensor> outs = {at::empty({6})}, ins = {in};
    backend->allgather_into_tensor_coalesced(outs, ins)->wait();
    CHECK(outs[0].equal(out));
    at::Tensor part = at::empty({3});
    backend->_reduce_scatter_base(part, out)->wait();
    CHECK(part.equal(at::full({3}, rank == 0 ? 2.0 : 4.0)));
    std::vector<at::Tensor> parts = {at::empty({3})}, wholes = {out};
    backend->reduce_scatter_tensor_coalesced(parts, wholes)->wait();
    CHECK(parts[0].equal(part));
    std::vector<at::Tensor> tensors = {in.clone()};
    const auto work = backend->allreduce(tensors);
    CHECK(work->wait());
    CHECK(work->isCompleted());
    CHECK(work->isSuccess());
    CHECK(tensors[0].equal(at::full({3}, 3.0)));
    tensors = {in.clone()};
    backend->broadcast(tensors)->wait();
    CHECK(tensors[0].equal(at::full({3}, 1.0)));
    std::vector<std::vector<at::Tensor>> gathered;
    if (rank == 0) gathered = {{at::empty({3}), at::empty({3})}};
    backend->gather(gathered, ins)->wait();
    if (rank == 0) CHECK(gathered[0][1].equal(at::full({3}, 2.0)));
    backend->barrier()->wait();
  });
}

TEST_CASE("a process group hands the tensors of a device to the c10d backend") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  tests::run_ranks(2, [&](int64_t rank) {
    constexpr auto kType = c10d::ProcessGroup::BackendType::CUSTOM;
    const auto group = c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(rank), 2);
    group->setBackend(tests::test_device().type(), kType,
                      make_shared_memory_backend(*store, static_cast<int>(rank), 2, plain(rank)));
    group->setDefaultBackend(kType);
    std::vector<at::Tensor> tensors = {at::full({3}, static_cast<double>(rank + 1))};
    group->allreduce(tensors)->wait();
    CHECK(tensors[0].equal(at::full({3}, 3.0)));
    at::Tensor in = at::full({2}, static_cast<double>(rank + 1)), out = at::empty({4});
    group->all_gather_single(out, in)->wait();
    CHECK(out.narrow(0, 2, 2).equal(at::full({2}, 2.0)));
    at::Tensor part = at::empty({2});
    group->reduce_scatter_single(part, out)->wait();
    CHECK(part.equal(at::full({2}, rank == 0 ? 2.0 : 4.0)));
  });
}

TEST_CASE("the memory left is the least that the machine and the control groups leave") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("titan_memory_" + std::to_string(getpid()));
  const auto write = [&](const char* path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 4000 kB\n");
  CHECK(available_memory(root) == 4'096'000);
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/one/memory.current", "5000\n");
  CHECK(available_memory(root) == 4'096'000);
  write("sys/fs/cgroup/jobs/memory.max", "1000000\n");
  write("sys/fs/cgroup/jobs/memory.current", "900000\n");
  write("sys/fs/cgroup/jobs/memory.stat", "anon 400000\ninactive_file 300000\n");
  CHECK(available_memory(root) == 400'000);
  write("proc/self/cgroup", "4:memory:/old\n");
  write("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "2000\n");
  write("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "3000\n");
  CHECK(available_memory(root) == 0);
  fs::remove_all(root);
}

}  // namespace titan
