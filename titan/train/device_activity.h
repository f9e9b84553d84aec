#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "titan/distributed/group.h"
#include "titan/train/tensorboard.h"

namespace titan {

/// What the neuron device counts, between two readings.
struct DeviceWork {
  double compilations = 0;     ///< of (operator, shapes, dtypes) used for the first time
  double persistent_hits = 0;  ///< compilations that the disk cache spared
  /// Seconds that its matrix, vector and scalar engines, its memory and its links took. Simulated: each works
  /// as fast as it can, none waits for another.
  std::array<double, 6> engine_seconds = {};

  /// What all taken together cannot be faster than: the busiest engine's seconds.
  double lower_bound() const;
  DeviceWork operator-(const DeviceWork& before) const;
};

/// Counters as the device shows them now; zeros without a neuron device.
DeviceWork read_device_work();

/// "Neuron: step 1 compiled 143 operators (emulated), 0 came from the disk cache; ...".
std::string device_work_line(std::string_view what, const DeviceWork& work, bool emulated);

/// Follows what the neuron device does and says when it compiles. Reading its counters runs no operator.
/// Without that device it says nothing.
class DeviceActivity {
 public:
  /// Counts from now on; `carried` is what this rank's groups have carried so far.
  void start(const GroupCounters& carried);

  /// Notes that the step is done; the first one, and each that compiled something, is logged. `carried` since
  /// the last call is told to the device as traffic of its links.
  void end_step(int64_t step, const GroupCounters& carried);

  /// Notes that something between steps is done ("saving"); logged when it compiled something.
  void end_of(std::string_view what, const GroupCounters& carried);

  /// The window's scalars, neuron/compilations and neuron/step_lower_bound(s) (mean of its steps), and begins
  /// the next one. None without a neuron device.
  std::vector<Scalar> take_window();

 private:
  DeviceWork since_last(const GroupCounters& carried);

  DeviceWork last_;
  int64_t carried_bytes_ = 0;
  bool first_ = true;
  double window_compilations_ = 0, window_bound_ = 0;
  int64_t window_steps_ = 0;
};

}  // namespace titan
