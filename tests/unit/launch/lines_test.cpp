#include <doctest/doctest.h>

#include "titan/launch/log_tee.h"
#include "titan/launch/worker_env.h"

using namespace titan;

namespace {

/// The lines of a stream that comes in these pieces.
std::vector<std::string> lines_of(const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  const auto emit = [&](std::string_view line) { lines.emplace_back(line); };
  LineSplitter splitter;
  for (const std::string& piece : pieces) splitter.feed(piece, emit);
  splitter.finish(emit);
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lines are whole whatever pieces they come in") {
  CHECK(lines_of({"a\nb\n"}) == Lines{"a", "b"});
  CHECK(lines_of({"a", "b", "\nc"}) == Lines{"ab", "c"});
  CHECK(lines_of({"a\n\nb\n"}) == Lines{"a", "", "b"});
  CHECK(lines_of({}).empty());
}

TEST_CASE("carriage returns end lines, alone or before a line feed") {
  CHECK(lines_of({"a\r\nb\r", "\nc\n"}) == Lines{"a", "b", "c"});
  CHECK(lines_of({"\r10%", "\r20%\r", "30%\n"}) == Lines{"10%", "20%", "30%"});
}

TEST_CASE("a line without end comes in pieces and not in endless memory") {
  const std::string much(3 << 20, 'x');
  CHECK(lines_of({much.substr(0, 2 << 20), much.substr(2 << 20)}).size() == 2);
}

TEST_CASE("places in arguments are replaced everywhere, and nothing else is") {
  CHECK(substitute("a${local_rank}b${local_rank}", "local_rank", "7") == "a7b7");
  CHECK(substitute("$local_rank ${other} $$", "local_rank", "7") == "$local_rank ${other} $$");
}
