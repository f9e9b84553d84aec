#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "lanes.h"

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

TEST_CASE("device_print prints nothing when only shapes are checked") {
  CHECK(errors_of([] {
          on_core([] { nl::device_print("x", tile({2, 2})); }, {.mode = RunMode::shapes});
        }).empty());
}
