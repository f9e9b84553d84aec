#include "titan/config/compiler.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/config/expect.h"

using namespace titan;

TEST_CASE("paths in a dependency file are read with their escapes") {
  CHECK(parse_dependencies("x.so: /a/b.cpp \\\n /with\\ space/c$$d.h /e\\#f.h\n") ==
        std::vector<std::string>{"/a/b.cpp", "/with space/c$d.h", "/e#f.h"});
  CHECK(parse_dependencies("").empty());
}

TEST_CASE("errors in the user's file come first, with their source lines, three at most") {
  const std::string output =
      "In file included from /cache/glue.cpp:3:\n"
      "/u/my.cpp: In function 'titan::TrainerConfig f()':\n"
      "/u/my.cpp:4:12: error: 'struct titan::TrainerConfig' has no member named 'trainig'; did you mean "
      "'training'?\n"
      "    4 |   config.trainig.steps = 3;\n"
      "      |          ^~~~~~~\n"
      "      |          training\n"
      "/usr/include/c++/12/bits/x.h:9:1: error: static assertion failed\n"
      "/u/my.cpp:5:1: error: second\n/u/my.cpp:6:1: error: third\n/u/my.cpp:7:1: error: fourth\n";
  CHECK(readable_errors(output, "/u") ==
        "/u/my.cpp:4:12: error: 'struct titan::TrainerConfig' has no member named 'trainig'; did you mean "
        "'training'?\n"
        "    4 |   config.trainig.steps = 3;\n"
        "      |          ^~~~~~~\n"
        "/u/my.cpp:5:1: error: second\n/u/my.cpp:6:1: error: third\n");
}

TEST_CASE("an error inside a header is shown at the user's line that led to it") {
  const std::string output =
      "In file included from /t/titan/config/fields.h:1,\n"
      "/t/titan/config/fields.h: In instantiation of 'void titan::Fields::operator()(...)':\n"
      "/u/my.cpp:8:8:   required from here\n"
      "/t/titan/config/fields.h:99:3: error: incomplete type 'MemberTypeOf<int>'\n";
  CHECK(readable_errors(output, "/u") ==
        "/u/my.cpp:8:8: error: incomplete type 'MemberTypeOf<int>' (reported in /t/titan/config/fields.h)\n");
}

TEST_CASE("errors that concern no file of the user's are shown all the same") {
  CHECK(readable_errors("cc1plus: fatal error: out of memory\n", "/u") ==
        "cc1plus: fatal error: out of memory\n");
  CHECK(readable_errors("collect2: ld returned 1 exit status\n", "/u") ==
        "collect2: ld returned 1 exit status\n");
}

TEST_CASE("CXX names the compiler, alone or behind a launcher, and one that is missing is none") {
  const char* before = std::getenv("CXX");
  const std::string kept = before ? before : "";
  const auto with = [](const char* value) {
    ::setenv("CXX", value, 1);
    const auto found = find_compiler();
    return found ? found->filename().string() : "none";
  };
  CHECK(with("g++") == "g++");
  CHECK(with("ccache g++ -m64") == "g++");
  CHECK(with("/there/is/none") == "none");
  CHECK(with(" ") == "none");
  before ? ::setenv("CXX", kept.c_str(), 1) : ::unsetenv("CXX");
  CHECK(find_compiler().has_value());
}

TEST_CASE("a program's output and exit code are kept") {
  const auto log = std::filesystem::temp_directory_path() / "titan_run_logged";
  CHECK(run_logged({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, log) == 3);
  std::ifstream file(log);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == "out\nerr\n");
  CHECK(run_logged({"/bin/sh", "-c", "kill -9 $$"}, log) == 128 + 9);
  CHECK_THROWS_AS(run_logged({"/there/is/none"}, log), ValueError);
  std::filesystem::remove(log);
}
