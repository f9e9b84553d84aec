#include "titan/nki/rendezvous.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>

#include "titan/nki.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"

namespace titan::nki {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;

std::pair<std::string, std::string> error_on_two(const std::function<void(int64_t core)>& body,
                                                 RunMode mode = RunMode::execute) {
  try {
    run_on_cores({.lnc = 2, .mode = mode}, [&] { body(nl::program_id()); });
  } catch (const KernelError& error) {
    return {error.rule, error.what()};
  }
  return {};
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Tensor shared(std::string name) {
  return nl::ndarray({4, 4}, Dtype::float32,
                     nl::NdarrayOptions{.buffer = nl::shared_hbm, .name = std::move(name)});
}

Tensor filled(double value, int64_t columns = 4, Dtype dtype = Dtype::float32) {
  const Tensor tile = nl::ndarray({4, columns}, dtype);
  nisa::memset(tile, value);
  return tile;
}

void swap(const Tensor& src, const Tensor& dst, int64_t pipe = 0) {
  const int64_t peer = 1 - nl::program_id();
  nisa::sendrecv(src, dst, {.send_to_rank = peer, .recv_from_rank = peer, .pipe_id = pipe});
}

TEST_CASE("no core passes a barrier before the other is there, a hundred times") {
  for (int run = 0; run < 100; ++run) {
    float seen = 0;
    run_on_cores({.lnc = 2}, [&] {
      const Tensor data = shared("data");
      if (nl::program_id() == 0) {
        if (run % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        nisa::dma_copy(data, filled(7));
      }
      nisa::core_barrier(data);
      if (nl::program_id() == 1) {
        const Tensor tile = nl::ndarray({4, 4}, Dtype::float32);
        nisa::dma_copy(tile, data);  // an error where it was not written
        seen = reinterpret_cast<const float*>(data.allocation()->data)[15];
      }
      nisa::core_barrier(data);
    });
    REQUIRE(seen == 7);
  }
}

TEST_CASE("sendrecv swaps tiles of equal shape and dtype, both ways") {
  for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16, Dtype::int8})
    for (int run = 0; run < 30; ++run) {
      const Tensor out = hbm_tensor("out", {2, 4, 4}, Dtype::float32, Buffer::shared_hbm, false);
      run_on_cores({.lnc = 2}, [&] {
        const int64_t core = nl::program_id();
        const Tensor mine = filled(static_cast<double>(10 + core), 4, dtype),
                     theirs = nl::ndarray({4, 4}, dtype);
        swap(mine, theirs);
        swap(theirs, mine, 1);  // and back, over another pipe
        swap(mine, theirs);
        nisa::dma_copy(out(core), theirs);
      });
      const auto* numbers = reinterpret_cast<const float*>(out.allocation()->data);
      REQUIRE(numbers[0] == 11);
      REQUIRE(numbers[15] == 11);
      REQUIRE(numbers[16] == 10);
      REQUIRE(numbers[31] == 10);
    }
}

TEST_CASE("a core that waits for one that has ended is a deadlock that names both") {
  for (const RunMode mode : {RunMode::execute, RunMode::shapes})
    for (const int64_t leaves : {0, 1})
      for (const bool late : {false, true}) {
        const auto [rule, text] = error_on_two(
            [&](int64_t core) {
              const Tensor data = shared("data");
              filled(1);
              if (late == (core == leaves)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
              if (core != leaves) nisa::core_barrier(data);
            },
            mode);
        CHECK(rule == "lnc.deadlock");
        CAPTURE(text);
        CHECK(has(text, format("core {} is at core_barrier(data shared_hbm[4, 4] float32) at ", 1 - leaves)));
        CHECK(
            has(text, format("core {} has ended after 1 instructions, the last of them memset at ", leaves)));
        CHECK(has(text, "rendezvous_test.cpp:"));
      }
  const auto [rule, text] = error_on_two([](int64_t core) {
    if (core == 1) swap(filled(1), filled(2));
  });
  CHECK(rule == "lnc.deadlock");
  CHECK(has(text, "core 0 has ended without an instruction"));
  CHECK(has(text, "core 1 is at sendrecv("));
}

TEST_CASE("cores that wait for different things are told apart") {
  for (const RunMode mode : {RunMode::execute, RunMode::shapes})
    for (int run = 0; run < 20; ++run) {
      const auto over_different = [](int64_t core) {
        const Tensor a = shared("a"), b = shared("b");
        nisa::core_barrier(core == 0 ? a : b);
      };
      auto [rule, text] = error_on_two(over_different, mode);
      CHECK(rule == "lnc.barrier-mismatch");
      CHECK(has(text, "core 0 is at core_barrier(a shared_hbm"));
      CHECK(has(text, "core 1 is at core_barrier(b shared_hbm"));

      const auto barrier_and_swap = [](int64_t core) {
        const Tensor a = shared("a");
        if (core == 0)
          nisa::core_barrier(a);
        else
          swap(filled(1), filled(2));
      };
      std::tie(rule, text) = error_on_two(barrier_and_swap, mode);
      CHECK(rule == "lnc.barrier-mismatch");
      CHECK(has(text, "core 1 is at sendrecv("));
      CHECK(has(text, "one core waits at a barrier"));

      std::tie(rule, text) = error_on_two([](int64_t core) { swap(filled(1), filled(2), core); }, mode);
      CHECK(rule == "lnc.sendrecv-mismatch");
      CHECK(has(text, "pipes 0 and 1"));

      const auto different_shapes = [](int64_t core) { swap(filled(1, 4 + core), filled(2, 4 + core)); };
      std::tie(rule, text) = error_on_two(different_shapes, mode);
      CHECK(rule == "lnc.sendrecv-mismatch");
      CHECK(has(text, "shape or dtype"));

      const auto different_dtypes = [](int64_t core) {
        const Dtype dtype = core == 0 ? Dtype::int32 : Dtype::float32;
        swap(filled(1, 4, dtype), filled(2, 4, dtype));
      };
      std::tie(rule, text) = error_on_two(different_dtypes, mode);
      CHECK(rule == "lnc.sendrecv-mismatch");
    }
}

TEST_CASE("what was never written cannot be sent") {
  const auto [rule, text] = error_on_two(
      [](int64_t core) { swap(core == 0 ? filled(1) : nl::ndarray({4, 4}, Dtype::float32), filled(2)); });
  CHECK_FALSE(rule.empty());
  CHECK(has(text, "sendrecv("));
  CHECK(has(text, "rendezvous_test.cpp:"));
}

TEST_CASE("one core alone has nobody to meet") {
  for (const RunMode mode : {RunMode::execute, RunMode::shapes}) {
    std::string rule;
    try {
      run_on_cores({.mode = mode}, [] { nisa::core_barrier(shared("data")); });
    } catch (const KernelError& error) {
      rule = error.rule;
    }
    CHECK(rule == "lnc.single-core");
    try {
      run_on_cores({.mode = mode},
                   [] { nisa::sendrecv(filled(1), filled(2), {.send_to_rank = 1, .recv_from_rank = 1}); });
    } catch (const KernelError& error) {
      rule = error.rule + "!";
    }
    CHECK(rule == "lnc.single-core!");
  }
}

TEST_CASE("the n-th shared tensor of each core is one tensor, and the cores make the same ones") {
  std::array<std::array<Tensor, 2>, 2> made;
  run_on_cores({.lnc = 2}, [&] {
    for (auto& tensor : made[static_cast<size_t>(nl::program_id())]) tensor = shared("s");
  });
  CHECK(made[0][0].allocation() == made[1][0].allocation());
  CHECK(made[0][1].allocation() == made[1][1].allocation());
  CHECK(made[0][0].allocation() != made[0][1].allocation());

  std::array<Tensor, 2> numbers;  // without a dimension: one number
  run_on_cores({.lnc = 2}, [&] {
    numbers[static_cast<size_t>(nl::program_id())] = nl::ndarray({}, Dtype::float32, Buffer::shared_hbm);
  });
  CHECK(numbers[0].shape() == std::vector<int64_t>{1});
  CHECK(numbers[0].allocation() == numbers[1].allocation());

  CHECK(error_on_two([](int64_t core) { shared(core == 0 ? "a" : "b"); }).first == "lnc.shared-hbm-mismatch");
  CHECK(error_on_two([](int64_t core) {
          shared("a");
          if (core == 0) shared("b");
        }).first == "lnc.shared-hbm-mismatch");
}

TEST_CASE("what a swap cannot read or write names the instruction and the kernel's line") {
  for (const bool sends : {true, false}) {
    const auto [rule, text] = error_on_two([&](int64_t) {
      const Tensor tile = filled(1, 8), part = filled(1);
      const Tensor outside =
          tile.ap({.pattern = {{8, 4}, {1, 4}}, .scalar_offset = Register(9), .indirect_dim = 1});
      sends ? swap(outside, part) : swap(part, outside);
    });
    CHECK(rule == "ap.scalar-offset-bounds");
    CHECK(has(text, "rendezvous_test.cpp:"));
    CHECK(has(text, "sendrecv("));
  }
}

TEST_CASE("cores that have made different shared tensors are told at the end, with what each did last") {
  const auto [rule, text] = error_on_two([](int64_t core) {
    filled(1);
    if (core == 1) shared("more");
  });
  CHECK(rule == "lnc.shared-hbm-mismatch");
  CHECK(has(text, "rendezvous_test.cpp:"));
  CHECK(has(text, "the last of them memset at "));
}

}  // namespace
}  // namespace titan::nki
