#include "titan/ops/threads.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "titan/base/error.h"

namespace titan {
namespace {

/// Sets environment variables for its lifetime.
class Environment {
 public:
  Environment(const char* threads, const char* local_ranks) {
    set("TITAN_NUM_THREADS", threads);
    set("LOCAL_WORLD_SIZE", local_ranks);
  }
  ~Environment() {
    unsetenv("TITAN_NUM_THREADS");
    unsetenv("LOCAL_WORLD_SIZE");
  }

 private:
  static void set(const char* name, const char* value) {
    if (value == nullptr) {
      unsetenv(name);
    } else {
      setenv(name, value, 1);
    }
  }
};

}  // namespace

TEST_CASE("TITAN_NUM_THREADS wins over cores and ranks") {
  const Environment environment("3", "2");
  CHECK(num_threads() == 3);
}

TEST_CASE("The processes of a launcher share the cores, and each has one thread at least") {
  int64_t all = 0;
  {
    const Environment environment(nullptr, nullptr);
    all = num_threads();
    CHECK(all >= 1);
  }
  {
    const Environment environment(nullptr, "1");
    CHECK(num_threads() == all);
  }
  const Environment environment(nullptr, "4096");
  CHECK(num_threads() == 1);
}

TEST_CASE("A number of threads that is none is an error that names the variable") {
  for (const char* wrong : {"0", "-1", "many", "2x", "99999"}) {
    const Environment environment(wrong, nullptr);
    CHECK_THROWS_WITH_AS(num_threads(), doctest::Contains("TITAN_NUM_THREADS"), ConfigError);
  }
}

}  // namespace titan
