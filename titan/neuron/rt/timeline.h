#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// The core's streams in simulated time (seconds since the start; a lower bound, see EngineTimes). The
/// emulator carries an operation out before its call returns, so that data is always ready in the order of
/// the calls; what streams and events order is simulated time. A stream or an event that was not created (or
/// was destroyed) is a ValueError everywhere but in has_stream(). Safe from several threads.
class Timeline {
 public:
  static constexpr int64_t kDefaultStream = 0;

  /// A new stream's id. It begins at the time that the default stream has reached.
  int64_t create_stream();
  bool has_stream(int64_t stream) const;

  /// Queues work on a stream.
  void run(int64_t stream, const EngineTimes& times);

  /// A new event's id.
  int64_t create_event();
  void destroy_event(int64_t event);
  /// The event is now the end of what `stream` has been given so far; recording again moves it.
  void record(int64_t event, int64_t stream);
  bool is_recorded(int64_t event) const;
  /// What `stream` is given from now on begins after the event. An event never recorded holds nothing up.
  void wait(int64_t stream, int64_t event);
  /// Simulated seconds from one recorded event to another, negative when `to` came first. ValueError when one
  /// was never recorded.
  double elapsed(int64_t from, int64_t to) const;

  /// Simulated end of the work of a stream, or of all.
  double time(int64_t stream) const;
  double time() const;
  /// What the engines have done in all.
  EngineTimes busy() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<int64_t, double> streams_ = {{kDefaultStream, 0.0}};
  std::unordered_map<int64_t, double> events_;  // negative: not recorded yet
  int64_t last_stream_ = kDefaultStream, last_event_ = 0;
  EngineTimes busy_;
};

}  // namespace titan::neuron
