#include "titan/neuron/rt/timeline.h"

#include <algorithm>
#include <string_view>

#include "titan/base/error.h"

namespace titan::neuron {

namespace {

/// The entry of a map of streams or events.
template <class Map>
auto& known_entry(Map& map, int64_t id, std::string_view what) {
  const auto found = map.find(id);
  if (found == map.end()) {
    throw ValueError("this core has no {} {}: it was not created or is destroyed", what, id);
  }
  return found->second;
}

/// When a stream's work ends.
template <class Streams>
auto& stream_end(Streams& streams, int64_t stream) {
  return known_entry(streams, stream, "stream");
}

/// When an event is; negative where it was never recorded.
template <class Events>
auto& event_time(Events& events, int64_t event) {
  return known_entry(events, event, "event");
}

double recorded(double time, int64_t event) {
  if (time < 0) throw ValueError("event {} has not been recorded: record it on a stream first", event);
  return time;
}

}  // namespace

int64_t Timeline::create_stream() {
  const std::lock_guard lock(mutex_);
  const double begin = stream_end(streams_, kDefaultStream);
  streams_[++last_stream_] = begin;
  return last_stream_;
}

bool Timeline::has_stream(int64_t stream) const {
  const std::lock_guard lock(mutex_);
  return streams_.contains(stream);
}

void Timeline::run(int64_t stream, const EngineTimes& times) {
  const std::lock_guard lock(mutex_);
  stream_end(streams_, stream) += times.longest();
  busy_ += times;
}

int64_t Timeline::create_event() {
  const std::lock_guard lock(mutex_);
  events_[++last_event_] = -1.0;
  return last_event_;
}

void Timeline::destroy_event(int64_t event) {
  const std::lock_guard lock(mutex_);
  event_time(events_, event);
  events_.erase(event);
}

void Timeline::record(int64_t event, int64_t stream) {
  const std::lock_guard lock(mutex_);
  event_time(events_, event) = stream_end(streams_, stream);
}

bool Timeline::is_recorded(int64_t event) const {
  const std::lock_guard lock(mutex_);
  return event_time(events_, event) >= 0;
}

void Timeline::wait(int64_t stream, int64_t event) {
  const std::lock_guard lock(mutex_);
  double& end = stream_end(streams_, stream);
  end = std::max(end, event_time(events_, event));
}

double Timeline::elapsed(int64_t from, int64_t to) const {
  const std::lock_guard lock(mutex_);
  const double begin = event_time(events_, from), end = event_time(events_, to);
  return recorded(end, to) - recorded(begin, from);
}

double Timeline::time(int64_t stream) const {
  const std::lock_guard lock(mutex_);
  return stream_end(streams_, stream);
}

double Timeline::time() const {
  const std::lock_guard lock(mutex_);
  double end = 0;
  for (const auto& [stream, time] : streams_) end = std::max(end, time);
  return end;
}

EngineTimes Timeline::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

}  // namespace titan::neuron
