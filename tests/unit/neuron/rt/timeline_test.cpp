#include "titan/neuron/rt/timeline.h"

#include <doctest/doctest.h>

#include <barrier>
#include <thread>

#include "titan/base/error.h"

using namespace titan;
using namespace titan::neuron;

namespace {

/// Work whose busiest engine takes `seconds`.
EngineTimes work(double seconds) {
  EngineTimes times;
  times.tensor = seconds;
  times.hbm = seconds / 2;
  return times;
}

constexpr int64_t kDefault = Timeline::kDefaultStream;

}  // namespace

TEST_CASE("streams run beside each other unless one waits for an event of the other") {
  Timeline timeline;
  const int64_t side = timeline.create_stream(), event = timeline.create_event();
  timeline.run(kDefault, work(4));
  timeline.record(event, kDefault);
  timeline.run(side, work(1));
  CHECK(timeline.time(kDefault) == 4);
  CHECK(timeline.time(side) == 1);
  CHECK(timeline.time() == 4);
  timeline.wait(side, event);
  timeline.run(side, work(1));
  CHECK(timeline.time(side) == 5);
  CHECK(timeline.time() == 5);
  timeline.wait(side, event);  // over already
  CHECK(timeline.time(side) == 5);
  CHECK(timeline.time(kDefault) == 4);
}

TEST_CASE("a stream begins when the default stream's work so far ends") {
  Timeline timeline;
  timeline.run(kDefault, work(3));
  const int64_t side = timeline.create_stream();
  CHECK(side != kDefault);
  CHECK(timeline.create_stream() != side);
  CHECK(timeline.time(side) == 3);
  CHECK(timeline.has_stream(side));
  CHECK(timeline.has_stream(kDefault));
  CHECK_FALSE(timeline.has_stream(side + 2));
}

TEST_CASE("recording again moves an event, but not who has waited for it") {
  Timeline timeline;
  const int64_t side = timeline.create_stream(), event = timeline.create_event();
  timeline.run(kDefault, work(1));
  timeline.record(event, kDefault);
  timeline.wait(side, event);
  timeline.run(kDefault, work(8));
  timeline.record(event, kDefault);
  timeline.run(side, work(1));
  CHECK(timeline.time(side) == 2);
  timeline.wait(side, event);
  timeline.run(side, work(1));
  CHECK(timeline.time(side) == 10);
  timeline.record(event, side);
  const int64_t end = timeline.create_event();
  timeline.record(end, kDefault);
  CHECK(timeline.elapsed(event, end) == -1);
}

TEST_CASE("the time between two events is that of the work between them") {
  Timeline timeline;
  const int64_t begin = timeline.create_event(), end = timeline.create_event();
  timeline.run(kDefault, work(2));
  timeline.record(begin, kDefault);
  CHECK_THROWS_WITH_AS(timeline.elapsed(begin, end), doctest::Contains("has not been recorded"), ValueError);
  CHECK_THROWS_WITH_AS(timeline.elapsed(end, begin), doctest::Contains("has not been recorded"), ValueError);
  timeline.run(kDefault, work(0.5));
  timeline.run(kDefault, work(0.25));
  timeline.record(end, kDefault);
  CHECK(timeline.elapsed(begin, end) == 0.75);
  CHECK(timeline.elapsed(end, begin) == -0.75);
}

TEST_CASE("an event that was never recorded holds nothing up; one recorded at the very start is recorded") {
  Timeline timeline;
  const int64_t event = timeline.create_event();
  timeline.run(kDefault, work(1));
  timeline.wait(kDefault, event);
  CHECK(timeline.time() == 1);
  CHECK_FALSE(timeline.is_recorded(event));
  Timeline fresh;
  const int64_t first = fresh.create_event();
  fresh.record(first, kDefault);
  CHECK(fresh.is_recorded(first));
}

TEST_CASE("unknown streams and events are errors that name them") {
  Timeline timeline;
  const int64_t event = timeline.create_event();
  const auto no_stream = doctest::Contains("no stream 7");
  const auto no_event = doctest::Contains("no event 9");
  CHECK_THROWS_WITH_AS(timeline.run(7, work(1)), no_stream, ValueError);
  CHECK_THROWS_WITH_AS(timeline.record(event, 7), no_stream, ValueError);
  CHECK_THROWS_WITH_AS(timeline.wait(7, event), no_stream, ValueError);
  CHECK_THROWS_WITH_AS(timeline.time(7), no_stream, ValueError);
  CHECK_THROWS_WITH_AS(timeline.record(9, kDefault), no_event, ValueError);
  CHECK_THROWS_WITH_AS(timeline.wait(kDefault, 9), no_event, ValueError);
  CHECK_THROWS_WITH_AS(timeline.is_recorded(9), no_event, ValueError);
  CHECK_THROWS_WITH_AS(timeline.elapsed(9, event), no_event, ValueError);
  CHECK_THROWS_WITH_AS(timeline.destroy_event(9), no_event, ValueError);
  timeline.destroy_event(event);
  CHECK_THROWS_AS(timeline.is_recorded(event), ValueError);
  CHECK(timeline.time() == 0);
  CHECK(timeline.busy().tensor == 0);
}

TEST_CASE("the engines' work is summed over all streams") {
  Timeline timeline;
  const int64_t side = timeline.create_stream();
  EngineTimes times;
  times.tensor = 1;
  times.vector = 2;
  times.scalar = 3;
  times.hbm = 4;
  times.link = 5;
  timeline.run(kDefault, times);
  timeline.run(side, times);
  const EngineTimes busy = timeline.busy();
  CHECK(busy.tensor == 2);
  CHECK(busy.vector == 4);
  CHECK(busy.scalar == 6);
  CHECK(busy.hbm == 8);
  CHECK(busy.link == 10);
  CHECK(timeline.time() == 5);
}

TEST_CASE("two threads lose no work and never share an id") {
  Timeline timeline;
  constexpr int64_t kSteps = 40'000;
  std::barrier begin(2);
  const auto play = [&](int64_t stream) {
    begin.arrive_and_wait();
    for (int64_t i = 0; i < kSteps; ++i) {
      timeline.run(stream, work(1));
      timeline.run(kDefault, work(1));
      const int64_t event = timeline.create_event();
      timeline.record(event, stream);
      timeline.destroy_event(event);
    }
  };
  const int64_t a = timeline.create_stream(), b = timeline.create_stream();
  {
    const std::jthread other([&] { play(b); });
    play(a);
  }
  CHECK(timeline.time(a) == kSteps);
  CHECK(timeline.time(b) == kSteps);
  CHECK(timeline.time(kDefault) == 2 * kSteps);
  CHECK(timeline.busy().tensor == 4 * kSteps);
  CHECK(timeline.create_event() == 2 * kSteps + 1);
}
