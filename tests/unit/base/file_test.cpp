#include "titan/base/file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "titan/base/error.h"

using namespace titan;
namespace fs = std::filesystem;

namespace {
fs::path fresh_folder() {
  char name[] = "/tmp/titan-file-test-XXXXXX";
  return mkdtemp(name);
}
}  // namespace

TEST_CASE("an atomic write replaces the old file and leaves no other") {
  const fs::path folder = fresh_folder();
  write_file_atomic(folder / "a", "one");
  write_file_atomic(folder / "a", "two");
  CHECK(read_file(folder / "a") == "two");
  CHECK(std::distance(fs::directory_iterator(folder), {}) == 1);
  CHECK(MappedFile(folder / "a").text() == "two");
  write_file_atomic(folder / "empty", "");
  CHECK(MappedFile(folder / "empty").bytes().empty());
  fs::remove_all(folder);
}

TEST_CASE("a write that fails half-way keeps the old file whole") {
  const fs::path folder = fresh_folder();
  write_file_atomic(folder / "a", "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK_THROWS_WITH_AS(write_file_atomic(folder / "a", std::string(10000, 'x')),
                       doctest::Contains("cannot write"), ValueError);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(read_file(folder / "a") == "old");
  CHECK(std::distance(fs::directory_iterator(folder), {}) == 1);
  fs::remove_all(folder);
}

TEST_CASE("errors name the path and the reason") {
  CHECK_THROWS_WITH_AS(read_file("/nonexistent/x"), "cannot read /nonexistent/x: No such file or directory",
                       ValueError);
  CHECK_THROWS_WITH_AS(read_file("/tmp"), "cannot read /tmp: Is a directory", ValueError);
  CHECK_THROWS_AS(MappedFile("/tmp"), ValueError);
  CHECK_THROWS_WITH_AS(require_writable_folder("/proc/x", "--dump_folder"),
                       doctest::Contains("--dump_folder"), ValueError);
}

TEST_CASE("what is no regular file is neither replaced nor mapped") {
  const fs::path folder = fresh_folder();
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(write_file_atomic(folder / "pipe", "x"), doctest::Contains("no regular file"),
                       ValueError);
  CHECK_THROWS_WITH_AS(MappedFile(folder / "pipe"), doctest::Contains("no regular file"), ValueError);
  for (const char* device : {"/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/nothing"}) {
    CAPTURE(device);
    CHECK_THROWS_AS(replaceable(device), ValueError);
  }
  CHECK(replaceable(folder / "nothing") == folder / "nothing");
  CHECK(replaceable("/dev/shm/nothing") == "/dev/shm/nothing");
  CHECK(fs::is_fifo(folder / "pipe"));
  fs::remove_all(folder);
}

TEST_CASE("a link is written through: it stays, and what it points to is replaced") {
  const fs::path folder = fresh_folder();
  fs::create_directory(folder / "there");
  fs::create_symlink("there/real", folder / "link");
  for (const char* text : {"first", "second"}) {
    write_file_atomic(folder / "link", text);
    CHECK(fs::is_symlink(folder / "link"));
    CHECK(read_file(folder / "there" / "real") == text);
  }
  fs::create_symlink("loop", folder / "loop");
  CHECK_THROWS_WITH_AS(write_file_atomic(folder / "loop", "x"), doctest::Contains("loop"), ValueError);
  fs::remove_all(folder);
}

TEST_CASE("absolute drops dots and trailing slashes") {
  CHECK(absolute("/a/./b/../c/") == "/a/c");
  CHECK(absolute("x") == (fs::current_path() / "x").string());
}

TEST_CASE("the cache in the temporary folder is this user's alone, or refused") {
  const fs::path temporary = fresh_folder();
  const auto variable = [](const char* name) { return std::string(getenv(name) ? getenv(name) : ""); };
  const std::string before = variable("TMPDIR");
  setenv("TMPDIR", temporary.c_str(), 1);
  const fs::path folder = own_temporary_folder();
  CHECK(folder.parent_path() == temporary);
  CHECK((fs::status(folder).permissions() & fs::perms::all) == fs::perms::owner_all);
  CHECK(own_temporary_folder() == folder);

  fs::permissions(folder, fs::perms::all);
  CHECK_THROWS_WITH_AS(own_temporary_folder(), doctest::Contains("set TITAN_CACHE_DIR"), ValueError);
  fs::remove(folder);
  fs::create_directory_symlink("/tmp", folder);
  CHECK_THROWS_AS(own_temporary_folder(), ValueError);
  if (getuid() == 0) {
    fs::remove(folder);
    REQUIRE(mkdir(folder.c_str(), 0700) == 0);
    REQUIRE(chown(folder.c_str(), 12345, 12345) == 0);
    CHECK_THROWS_AS(own_temporary_folder(), ValueError);
  }
  before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
  fs::remove_all(temporary);
}
