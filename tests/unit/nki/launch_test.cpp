#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "titan/nki.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"
#include "titan/nki/recorder.h"

namespace titan::nki {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using doctest::Contains;

/// The rule that `body` breaks on `options`, and the message.
std::pair<std::string, std::string> error_of(RunOptions options, const std::function<void()>& body) {
  try {
    run_on_cores(options, body);
  } catch (const KernelError& error) {
    return {error.rule, error.what()};
  }
  return {};
}

Tensor numbers(std::vector<float>& values, int64_t rows, int64_t columns) {
  return host_tensor("x", {rows, columns}, Dtype::float32, values.data(), nullptr);
}

/// Doubles x: each core its half of the columns.
Tensor doubled(Tensor x) {
  const Tensor out =
      nl::ndarray(x.shape(), x.dtype(), nl::NdarrayOptions{.buffer = nl::shared_hbm, .name = "out"});
  const int64_t share = x.size(1) / nl::num_programs(), begin = nl::program_id() * share;
  const Tensor tile = nl::ndarray({x.size(0), share}, x.dtype());
  nisa::dma_copy(tile, x(all, ds(begin, share)));
  nisa::tensor_scalar(tile, tile, nl::multiply, 2.0);
  nisa::dma_copy(out(all, ds(begin, share)), tile);
  return out;
}

const float* data_of(const Tensor& tensor) {
  return reinterpret_cast<const float*>(tensor.allocation()->data);
}

TEST_CASE("a kernel gives the same on one core and on two, a hundred times") {
  std::vector<float> values(8 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor x = numbers(values, 8, 64);
  for (int run = 0; run < 100; ++run)
    for (const int64_t lnc : {1, 2}) {
      const Tensor out = simulate(doubled)[lnc](x);
      bool equal = true;
      for (size_t i = 0; i < values.size(); ++i) equal = equal && data_of(out)[i] == 2 * values[i];
      REQUIRE(equal);
    }
}

TEST_CASE("kernels run on several threads of the host at once") {
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&good, t] {
      std::vector<float> values(4 * 16, static_cast<float>(t));
      const Tensor x = numbers(values, 4, 16);
      for (int run = 0; run < 10; ++run)
        if (data_of(simulate(doubled)[2](x))[63] == 2 * static_cast<float>(t)) ++good;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 40);
}

TEST_CASE("a core's thread is the caller's for LNC 1, and its core is set for the run only") {
  const std::thread::id caller = std::this_thread::get_id();
  CHECK_FALSE(is_in_kernel());
  run_on_cores({}, [&] {
    CHECK(std::this_thread::get_id() == caller);
    CHECK(is_in_kernel());
    CHECK(nl::program_id() == 0);
    CHECK(nl::num_programs() == 1);
  });
  CHECK_FALSE(is_in_kernel());
  CHECK_THROWS_AS(run_on_cores({}, [] { throw std::out_of_range("x"); }), std::out_of_range);
  CHECK_FALSE(is_in_kernel());
  CHECK_THROWS_WITH_AS(current_core(), Contains("[kernel.outside]"), KernelError);
  std::atomic<int64_t> ids = 0;
  run_on_cores({.lnc = 2}, [&] { ids += 1 + 10 * nl::program_id(); });
  CHECK(ids == 12);
}

TEST_CASE("a kernel that does not end is stopped by the budget") {
  const auto endless = [] {
    const Tensor tile = nl::ndarray({4, 4}, Dtype::float32);
    while (true) nisa::memset(tile, 0);
  };
  for (const int64_t lnc : {1, 2})
    for (const RunMode mode : {RunMode::execute, RunMode::shapes}) {
      const auto [rule, text] = error_of({.lnc = lnc, .mode = mode, .instruction_budget = 1000}, endless);
      CHECK(rule == "kernel.budget");
      CHECK(text.find("1,000 instructions") != std::string::npos);
      CHECK(text.find("memset(") != std::string::npos);
      CHECK(text.find("launch_test.cpp") != std::string::npos);
    }
  // As many as the budget are fine.
  CHECK(run_on_cores({.instruction_budget = 5},
                     [] {
                       const Tensor tile = nl::ndarray({4, 4}, Dtype::float32);
                       for (int i = 0; i < 5; ++i) nisa::memset(tile, 0);
                     })
            .cores[0]
            .num_instructions == 5);
}

TEST_CASE("the error of one core stops the other, whatever it does") {
  const Tensor data = hbm_tensor("data", {4, 4}, Dtype::float32, Buffer::shared_hbm, false);
  for (int run = 0; run < 20; ++run)
    for (const int64_t failing : {0, 1}) {
      // The other core waits at a barrier, or runs on.
      CHECK_THROWS_WITH_AS(run_on_cores({.lnc = 2},
                                        [&] {
                                          if (nl::program_id() == failing) throw std::runtime_error("mine");
                                          nisa::core_barrier(data);
                                        }),
                           "mine", std::runtime_error);
      CHECK_THROWS_WITH_AS(run_on_cores({.lnc = 2},
                                        [&] {
                                          if (nl::program_id() == failing) throw std::runtime_error("mine");
                                          const Tensor tile = nl::ndarray({4, 4}, Dtype::float32);
                                          while (true) nisa::memset(tile, 0);
                                        }),
                           "mine", std::runtime_error);
    }
}

TEST_CASE("a broken rule names the instruction, its operands and the kernel's line") {
  for (const RunMode mode : {RunMode::execute, RunMode::shapes}) {
    const auto [rule, text] = error_of({.mode = mode}, [] {
      const Tensor a = nl::ndarray({4, 4}, Dtype::float32), b = nl::ndarray({4, 8}, Dtype::float32);
      nisa::tensor_copy(a, b);
    });
    CHECK(rule.starts_with("tensor_copy."));
    CHECK(text.find("tensor_copy(") != std::string::npos);
    CHECK(text.find("[4, 8]") != std::string::npos);
    CHECK(text.find("launch_test.cpp:") != std::string::npos);
  }
}

TEST_CASE("a kernel called in a kernel is inlined") {
  std::vector<float> values(4 * 16, 3);
  const Tensor x = numbers(values, 4, 16);
  const auto outer = +[](Tensor given) {
    const Tensor once = simulate(doubled)(given);
    return simulate(doubled)[nl::num_programs()](once);
  };
  for (const int64_t lnc : {1, 2}) {
    KernelRun record;
    // On two cores each reads what it wrote itself.
    const Tensor out = simulate(outer)[lnc].run(&record, x);
    CHECK(data_of(out)[0] == 12);
    CHECK(data_of(out)[63] == 12);
    REQUIRE(record.cores.size() == static_cast<size_t>(lnc));
    CHECK(record.cores[0].num_instructions == 6);
    CHECK(record.cores[static_cast<size_t>(lnc - 1)].instructions.size() == 6);
  }
  const auto asks_for_more = +[](Tensor given) { return simulate(doubled)[2](given); };
  CHECK_THROWS_WITH_AS(simulate(asks_for_more)[1](x), Contains("[launch.nested-lnc]"), KernelError);
}

TEST_CASE("kernels return nothing or tensors of HBM, alone or together") {
  std::vector<float> values(4 * 16, 3);
  const Tensor x = numbers(values, 4, 16);
  const auto nothing = +[](Tensor t) { simulate(doubled)(t); };
  simulate(nothing)[2](x);
  const auto both =
      +[](Tensor t) { return std::tuple<Tensor, std::vector<Tensor>>{t, {t, simulate(doubled)(t)}}; };
  const auto [first, rest] = simulate(both)[2](x);
  CHECK(first.allocation() == x.allocation());
  CHECK(data_of(rest[1])[5] == 6);
  const auto on_chip = +[](Tensor) { return nl::ndarray({4, 4}, Dtype::float32); };
  CHECK_THROWS_WITH_AS(simulate(on_chip)(x), Contains("[launch.result-buffer]"), KernelError);
  const auto hidden =
      +[](Tensor t) { return std::pair<Tensor, Tensor>{t, nl::ndarray({4, 4}, Dtype::float32)}; };
  CHECK_THROWS_WITH_AS(simulate(hidden)[2](x), Contains("[launch.result-buffer]"), KernelError);
}

TEST_CASE("records name on-chip memory without keeping it, and HBM stays") {
  // Each tile is a third of a partition: kept tiles would not fit.
  const int64_t columns = CoreSizes::of(Generation::trn2).sbuf_partition_bytes / 4 / 3;
  const KernelRun run = run_on_cores({.record = true}, [&] {
    for (int i = 0; i < 5; ++i) {
      const Tensor scratch = nl::ndarray({2, columns}, Dtype::float32, nl::hbm);
      const Tensor tile = nl::ndarray({2, columns}, Dtype::float32);
      nisa::memset(tile, i);
      nisa::dma_copy(scratch, tile);
    }
  });
  const std::vector<Instruction>& instructions = run.cores[0].instructions;
  REQUIRE(instructions.size() == 10);
  CHECK(run.cores[0].peak_sbuf_bytes == columns * 4);
  CHECK(instructions[0].dst.allocation()->memory == nullptr);
  CHECK(instructions[0].dst.allocation() == instructions[1].sources[0].allocation());
  CHECK(instructions[0].dst.allocation()->byte_offset == instructions[2].dst.allocation()->byte_offset);
  CHECK(instructions[9].describe().find("sbuf[2, ") != std::string::npos);
  CHECK(*data_of(instructions[9].dst) == 4);
}

TEST_CASE("a run counts the work of each core when it is asked to, without keeping instructions") {
  std::vector<float> values(128 * 512, 1);
  const Tensor x = numbers(values, 128, 512);
  for (const int64_t lnc : {1, 2}) {
    KernelRun run;
    simulate(doubled)[lnc].finish(run, x);
    CHECK(run.cores[0].work.vector == 0);
    simulate(doubled).with({.count_work = true})[lnc].finish(run, x);
    REQUIRE(static_cast<int64_t>(run.cores.size()) == lnc);
    for (const CoreRecord& core : run.cores) {
      CHECK(core.instructions.empty());
      CHECK(core.work.vector == doctest::Approx(512.0 / static_cast<double>(lnc) / 0.96e9).scale(0));
      CHECK(core.work.hbm_bytes == 2 * 128 * 512 * 4 / lnc);
      CHECK(core.work.tensor == 0);
    }
  }
}

TEST_CASE("errors that know no line of the kernel name the launch's") {
  std::vector<float> values(4 * 16, 3);
  const Tensor x = numbers(values, 4, 16);
  const auto on_chip = +[](Tensor) { return nl::ndarray({4, 4}, Dtype::float32); };
  const auto asks_for_more = +[](Tensor given) { return simulate(doubled)[2](given); };
  CHECK_THROWS_WITH_AS(simulate(on_chip)(x), Contains("launch_test.cpp:"), KernelError);
  CHECK_THROWS_WITH_AS(simulate(doubled)[3](x), Contains("launch_test.cpp:"), KernelError);
  CHECK_THROWS_WITH_AS(simulate(asks_for_more)(x), Contains("launch_test.cpp:"), KernelError);
  CHECK(error_of({.lnc = 3}, [] {}).second.find("launch_test.cpp:") != std::string::npos);
  CHECK(error_of({.instruction_budget = 0}, [] {}).second.find("launch_test.cpp:") != std::string::npos);
}

TEST_CASE("a run has 1 or 2 cores, and trn1 none of two") {
  CHECK(error_of({.lnc = 3}, [] {}).first == "launch.lnc");
  CHECK(error_of({.lnc = 0}, [] {}).first == "launch.lnc");
  CHECK(error_of({.lnc = 2, .generation = Generation::trn1}, [] {}).first == "launch.lnc");
}

}  // namespace
}  // namespace titan::nki
