// What a core does not carry out: reach for memory that is not its own, and go on for ever.
#include "titan/nki/core.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel_error.h"
#include "titan/nki.h"
#include "titan/nki/memory.h"

namespace titan::nki {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;

Tensor filled(std::vector<int64_t> shape, Dtype dtype = Dtype::float32, double value = 1) {
  const Tensor tile = nl::ndarray(std::move(shape), dtype);
  nisa::memset(tile, value);
  return tile;
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// Tensors that a kernel hands on, as it must not.
struct Kept {
  Tensor tile, words, sums, one;  ///< float32 [128, 128] of SBUF and PSUM, int32 [128, 1] and [1, 1]
};

Kept kept_tensors() {
  Kept kept = {filled({128, 128}), filled({128, 1}, nl::int32, 0),
               nl::ndarray({128, 128}, nl::float32, nl::psum), filled({1, 1}, nl::int32, 0)};
  // Half of the sums are there: the next matmul has places to clear.
  nisa::nc_matmul(kept.sums(all, ds(0, 64)), filled({128, 128}), filled({128, 64}));
  return kept;
}

/// Uses of `kept`, each in a kernel of its own.
std::vector<std::pair<const char*, std::function<void(const Kept&)>>> uses() {
  const auto hbm = [] { return nl::shared_constant({4, 1}, nl::float32, {1, 2, 3, 4}); };
  return {
      {"tensor_copy_predicated",
       [](const Kept& k) {
         nisa::tensor_copy_predicated(k.tile, filled({128, 128}), filled({128, 128}, nl::uint8));
       }},
      {"nc_matmul(", [](const Kept& k) { nisa::nc_matmul(k.sums, filled({128, 128}), filled({128, 128})); }},
      {"nc_matmul(",
       [](const Kept& k) {
         nisa::nc_matmul(nl::ndarray({128, 128}, nl::float32, nl::psum), k.tile, filled({128, 128}));
       }},
      {"nc_transpose", [](const Kept& k) { nisa::nc_transpose(k.sums, filled({128, 128})); }},
      {"memset", [](const Kept& k) { nisa::memset(k.tile, 0); }},
      {"dma_copy", [](const Kept& k) { nisa::dma_copy(nl::ndarray({128, 128}, nl::float32), k.tile); }},
      {"dma_copy",
       [=](const Kept& k) {
         nisa::dma_copy(nl::ndarray({1, 1}, nl::float32),
                        hbm().ap({.pattern = {{1, 1}}, .scalar_offset = k.one}));
       }},
      {"dma_copy",
       [=](const Kept& k) {
         nisa::dma_copy(nl::ndarray({1, 1}, nl::float32),
                        hbm().ap({.pattern = {{1, 1}, {1, 1}}, .vector_offset = k.one}));
       }},
      {"tensor_scalar",
       [](const Kept& k) {
         nisa::tensor_scalar(filled({128, 4}), filled({128, 4}), nl::multiply, k.tile(all, ds(0, 1)));
       }},
      {"activation_reduce",
       [](const Kept& k) {
         nisa::activation_reduce(filled({128, 4}), nl::exp, filled({128, 4}), nl::add, k.tile(all, ds(0, 1)));
       }},
      {"device_print", [](const Kept& k) { nl::device_print("kept", k.one); }},
      {"register_load",
       [](const Kept& k) {
         Register to;
         nisa::register_load(to, k.one);
       }},
      {"register_load",
       [](const Kept& k) {
         const Tensor far = nl::shared_constant({4, 1}, nl::int32, {1, 2, 3, 4});
         Register to;
         nisa::register_load(to, far.ap({.pattern = {{1, 1}}, .scalar_offset = k.one}));
       }},
      {"register_store", [](const Kept& k) { nisa::register_store(k.one, Register(1)); }},
  };
}

TEST_CASE("tensors of SBUF and PSUM that outlive their kernel are refused by whatever uses them") {
  for (const RunMode mode : {RunMode::execute, RunMode::shapes}) {
    Kept kept;
    run_on_cores({.mode = mode}, [&] { kept = kept_tensors(); });
    for (const auto& [name, use] : uses()) {
      CAPTURE(name);
      const auto act = [&, &use_ = use] { run_on_cores({.mode = mode}, [&] { use_(kept); }); };
      CHECK(broken_rule(act) == "memory.core-gone");
      const std::string message = message_of(act);
      CHECK(says(message, name));
      CHECK(says(message, "core_test.cpp:"));
    }
  }
}

TEST_CASE("a core reaches neither SBUF nor PSUM of the other one") {
  for (const auto& [name, use] : uses()) {
    CAPTURE(name);
    const auto act = [&, &use_ = use] {
      Kept kept;
      run_on_cores({.lnc = 2}, [&] {
        const Tensor meeting = nl::ndarray({1, 1}, nl::float32, nl::shared_hbm);
        if (nl::program_id() == 0) kept = kept_tensors();
        nisa::core_barrier(meeting);
        if (nl::program_id() == 1) use_(kept);
        nisa::core_barrier(meeting);
      });
    };
    CHECK(broken_rule(act) == "memory.other-core");
    CHECK(says(message_of(act), "core 1 reaches its own SBUF and PSUM only"));
    CHECK(says(message_of(act), "core_test.cpp:"));
  }
  for (const bool sends : {true, false}) {
    Tensor of_0;
    CHECK(broken_rule([&] {
            run_on_cores({.lnc = 2}, [&] {
              const Tensor meeting = nl::ndarray({1, 1}, nl::float32, nl::shared_hbm);
              const Tensor mine = filled({4, 4});
              const int64_t peer = 1 - nl::program_id();
              if (nl::program_id() == 0) of_0 = mine;
              nisa::core_barrier(meeting);
              const Tensor fresh = filled({4, 4});
              nisa::sendrecv(sends ? of_0 : fresh, sends ? fresh : of_0,
                             {.send_to_rank = peer, .recv_from_rank = peer});
            });
          }) == "memory.other-core");
  }
}

TEST_CASE("a loop of register moves, allocations or nothing is stopped by the budget, on shapes too") {
  const auto flag = [] { return filled({1, 1}, nl::int32, 0); };
  const std::vector<std::pair<const char*, std::function<void()>>> loops = {
      {"register_load",
       [&] {
         const Tensor zero = flag();
         Register to;
         do {
           nisa::register_load(to, zero);
         } while (to.value() == 0);
       }},
      {"register_store",
       [&] {
         const Tensor to = flag();
         while (true) nisa::register_store(to, Register(1));
       }},
      {"ndarray",
       [] {
         while (true) nl::ndarray({1, 1}, nl::float32);
       }},
      {"fori_loop", [] { nl::fori_loop(0, INT64_MAX, [](const Register&) {}); }},
  };
  for (const auto& [name, loop] : loops)
    for (const RunMode mode : {RunMode::execute, RunMode::shapes}) {
      CAPTURE(name);
      const auto act = [&, &loop_ = loop] {
        run_on_cores({.mode = mode, .instruction_budget = 1000}, loop_);
      };
      CHECK(broken_rule(act) == "kernel.budget");
      CHECK(says(message_of(act), "1,000 allocations, moves of registers and turns of loops"));
      CHECK(says(message_of(act), name));
      CHECK(says(message_of(act), "core_test.cpp:"));
    }
}

TEST_CASE("a loop of register moves or allocations does not hide the other core's error") {
  const std::vector<std::function<void()>> loops = {[] {
                                                      const Tensor zero = filled({1, 1}, nl::int32, 0);
                                                      Register to;
                                                      do {
                                                        nisa::register_load(to, zero);
                                                      } while (to.value() == 0);
                                                    },
                                                    [] {
                                                      const Tensor to = filled({1, 1}, nl::int32, 0);
                                                      while (true) nisa::register_store(to, Register(1));
                                                    },
                                                    [] {
                                                      while (true) nl::ndarray({1, 1}, nl::float32);
                                                    }};
  for (const auto& loop : loops)
    for (const int64_t failing : {0, 1}) {
      CHECK_THROWS_WITH_AS(run_on_cores({.lnc = 2, .instruction_budget = int64_t{1} << 40},
                                        [&] {
                                          if (nl::program_id() == failing) throw std::runtime_error("mine");
                                          loop();
                                        }),
                           "mine", std::runtime_error);
    }
}

/// The variable of the environment while it lives; other tests of this program do not see it.
class BudgetVariable {
 public:
  explicit BudgetVariable(const char* value) { setenv(kName, value, 1); }
  ~BudgetVariable() { unsetenv(kName); }
  static constexpr const char* kName = "TITAN_NKI_INSTRUCTION_BUDGET";
};

TEST_CASE("the budget is the options', else the environment's, else smaller where instructions are kept") {
  CHECK(instruction_budget({}) == 5'000'000);
  CHECK(instruction_budget({.record = true}) == 2'000'000);
  const BudgetVariable variable("300");
  CHECK(instruction_budget({}) == 300);
  CHECK(instruction_budget({.record = true}) == 300);
  CHECK(instruction_budget({.instruction_budget = 7}) == 7);
  const auto endless = [] {
    const Tensor tile = nl::ndarray({4, 4}, nl::float32);
    while (true) nisa::memset(tile, 0);
  };
  const std::string message = message_of([&] { run_on_cores({}, endless); });
  CHECK(says(message, "300 instructions, which is the budget, "));
  CHECK(says(message, "set TITAN_NKI_INSTRUCTION_BUDGET"));
  CHECK(says(message_of([&] { run_on_cores({.record = true}, endless); }),
             "300 instructions, which is the budget while they are kept for a trace"));
}

TEST_CASE("a budget that lets nothing run is refused, and so is one that is no number") {
  for (const int64_t budget : {0, -1}) {
    CHECK(broken_rule([&] { run_on_cores({.instruction_budget = budget}, [] {}); }) ==
          "launch.instruction-budget");
  }
  for (const char* text : {"0", "-1", "1e6", "many", "5 000", "99999999999999999999"}) {
    const BudgetVariable variable(text);
    CAPTURE(text);
    CHECK_THROWS_AS(run_on_cores({}, [] {}), ConfigError);
    const std::string message = message_of([] { run_on_cores({.lnc = 2}, [] {}); });
    CHECK(says(message, BudgetVariable::kName));
    CHECK(says(message, text));
  }
}

}  // namespace
}  // namespace titan::nki
