#include "titan/launch/failure.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "titan/base/file.h"
#include "titan/base/strings.h"

using namespace titan;

namespace {

std::optional<ErrorFile> reading(std::string_view text) {
  const auto path = std::filesystem::temp_directory_path() / format("titan_failure_{}.json", ::getpid());
  write_file_atomic(path, text);
  const auto file = read_error_file(path);
  std::filesystem::remove(path);
  return file;
}

Failure at(double time, bool of_a_peer = false, int64_t rank = 0) {
  Failure failure;
  failure.rank = rank;
  failure.time = time;
  failure.of_a_peer = of_a_peer;
  return failure;
}

}  // namespace

TEST_CASE("error files of titan's and Python's workers are read") {
  const auto own =
      reading(R"({"message": {"message": "m", "extraInfo": {"timestamp": 12.5, "peer_failure": true}}})");
  REQUIRE(own);
  CHECK(own->message == "m");
  CHECK(own->time == 12.5);
  CHECK(own->of_a_peer);
  const auto python = reading(
      R"({"message": {"message": "m", "extraInfo": {"py_callstack": "Traceback", "timestamp": "12"}}})");
  REQUIRE(python);
  CHECK(python->message == "Traceback");
  CHECK(python->time == 12);
  CHECK(reading(R"({"message": "plain", "timestamp": "7"})")->message == "plain");
}

TEST_CASE("a half written or foreign error file is none") {
  for (const char* text : {"", "{\"message\": {\"mess", "[]", "{}", "7"}) CHECK_FALSE(reading(text));
  CHECK_FALSE(read_error_file("/nonexistent/error.json"));
}

TEST_CASE("the earlier failure is first, and whoever follows a peer is last") {
  CHECK(is_earlier(at(1), at(2)));
  CHECK_FALSE(is_earlier(at(2), at(1)));
  CHECK(is_earlier(at(2), at(1, true)));
  CHECK(is_earlier(at(1, false, 3), at(1, false, 4)));
}

TEST_CASE("a failure survives the way to another node") {
  Failure failure = at(3.25, true, 5);
  failure.host = "node7";
  failure.signal = 9;
  failure.message = "line\nline";
  failure.num_more = 2;
  CHECK(Failure::from_json(Json::parse(failure.to_json().dump(), "test")).describe() == failure.describe());
  CHECK(failure.describe() ==
        "rank 5 (local rank -1 on node7, pid 0) failed first, ended by SIGKILL (which the kernel also sends "
        "when memory "
        "runs out); 2 more of its node failed\n  line\n  line");
}

TEST_CASE(
    "a worker that was stopped while it reported its failure is not said to have ended by that signal") {
  Failure failure{.rank = 1, .local_rank = 1, .host = "here", .pid = 7, .signal = 15, .message = "no data"};
  CHECK(failure.describe().find("ended by SIGTERM") != std::string::npos);
  failure.stopped = true;
  CHECK(failure.describe().find("SIGTERM") == std::string::npos);
  CHECK(failure.describe().find("was stopped with the others") != std::string::npos);
  CHECK(Failure::from_json(failure.to_json()).stopped);
}
