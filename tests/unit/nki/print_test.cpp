#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "lanes.h"
#include "tests/unit/nki/kernel_error.h"

using namespace titan::nki;
using namespace titan::nki::lanes;

namespace {

/// What `body` writes to stderr.
std::string errors_of(const std::function<void()>& body) {
  char path[] = "/tmp/titan_nki_print_XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  std::fflush(stderr);
  const int kept = dup(STDERR_FILENO);
  dup2(file, STDERR_FILENO);
  body();
  std::fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(file);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path);
  return text.str();
}

}  // namespace

TEST_CASE("device_print writes a tensor's numbers, of SBUF, PSUM and HBM") {
  const std::string text = errors_of([] {
    on_core([] {
      const Tensor x = nl::ndarray({2, 3}, Dtype::bfloat16, {.name = "x"});
      fill(x, {1, -2.5F, 3, 0.5F, 512, 0});
      nl::device_print("rows", x);
      const Tensor sums =
          fill(nl::ndarray({1, 2}, Dtype::float32, {.buffer = nl::psum, .name = "sums"}), {7, 8});
      nl::device_print("psum", sums(all, ds(1, 1)));
      nl::device_print("far", nl::shared_constant({4}, Dtype::int32, {1, 2, 3, 4}));
    });
  });
  CHECK(text ==
        "rows [core 0]: x sbuf[2, 3] bfloat16\n  [0] 1 -2.5 3\n  [1] 0.5 512 0\n"
        "psum [core 0]: sums psum[1, 1] float32\n  [0] 8\n"
        "far [core 0]: constant private_hbm[4] int32\n  [0] 1 2 3 4\n");
}

TEST_CASE("device_print names its core, and prints from where a register says") {
  const std::string text = errors_of([] {
    on_core(
        [] {
          if (nl::program_id() == 0) return;
          const Tensor x = nl::ndarray({1, 6}, Dtype::float32, {.name = "x"});
          fill(x, {0, 1, 2, 3, 4, 5});
          const Register three(3);
          nl::device_print("late",
                           x.ap({.pattern = {{6, 1}, {1, 2}}, .scalar_offset = three, .indirect_dim = 1}));
        },
        {.lnc = 2});
  });
  CHECK(text == "late [core 1]: x sbuf[1, 2] float32\n  [0] 3 4\n");
}

TEST_CASE("device_print prints integers to their last digit") {
  const std::string text = errors_of([] {
    on_core([] {
      const auto print = [](double value, Dtype dtype) {
        const Tensor one = tile({1, 1}, dtype);
        nisa::memset(one, value);
        nl::device_print("x", one);
      };
      print(123456789, Dtype::int32);
      print(-2147483647, Dtype::int32);
      print(4294967295.0, Dtype::uint32);
      print(-32768, Dtype::int16);
      print(65535, Dtype::uint16);
      print(-128, Dtype::int8);
    });
  });
  for (const char* line : {"[0] 123456789\n", "[0] -2147483647\n", "[0] 4294967295\n", "[0] -32768\n",
                           "[0] 65535\n", "[0] -128\n"})
    CHECK(text.find(line) != std::string::npos);
}

TEST_CASE("device_print shortens tensors of more than 1,000 elements") {
  const auto printed = [](int64_t rows, int64_t columns) {
    return errors_of([=] {
      on_core([=] {
        const Tensor x = nl::ndarray({rows, columns}, Dtype::int32, {.name = "x"});
        nisa::iota(x, {{1, columns}}, {.channel_multiplier = 100});
        nl::device_print("x", x);
      });
    });
  };
  CHECK(printed(8, 126) ==
        "x [core 0]: x sbuf[8, 126] int32\n  [0] 0 1 2 ... 123 124 125\n  [1] 100 101 102 ... 223 224 225\n"
        "  [2] 200 201 202 ... 323 324 325\n  ...\n  [5] 500 501 502 ... 623 624 625\n"
        "  [6] 600 601 602 ... 723 724 725\n  [7] 700 701 702 ... 823 824 825\n");
  const std::string whole = printed(8, 125);
  CHECK(whole.find("...") == std::string::npos);
  CHECK(whole.find("  [4] 400 401") != std::string::npos);
  CHECK(printed(1, 1001) == "x [core 0]: x sbuf[1, 1001] int32\n  [0] 0 1 2 ... 998 999 1000\n");
}

TEST_CASE("device_print notices what was never written, also where it prints dots") {
  for (const int64_t columns : {4, 2000}) {
    const std::string rule = broken_rule([=] {
      on_core([=] {
        const Tensor x = tile({2, columns}, Dtype::float32);
        nisa::memset(x, 1);
        const Tensor y = tile({2, columns}, Dtype::float32);
        nisa::memset(y(all, ds(0, columns / 2)), 1);
        nisa::memset(y(all, ds(columns / 2 + 1, columns / 2 - 1)), 1);
        nl::device_print("y", y);
      });
    });
    CHECK(rule == "memory.unwritten");
  }
}

TEST_CASE("device_print prints nothing when only shapes are checked") {
  CHECK(errors_of([] {
          on_core([] { nl::device_print("x", tile({2, 2})); }, {.mode = RunMode::shapes});
        }).empty());
}
