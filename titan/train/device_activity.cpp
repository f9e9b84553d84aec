#include "titan/train/device_activity.h"

#include <algorithm>
#include <cmath>

#include "titan/base/log.h"
#include "titan/base/strings.h"
#include "titan/ops/device.h"

namespace titan {
namespace {

constexpr std::string_view kEngines[] = {"simulated.tensor_s", "simulated.vector_s", "simulated.scalar_s",
                                         "simulated.gpsimd_s", "simulated.hbm_s",    "simulated.link_s"};

int64_t bytes_of(const GroupCounters& carried) {
  return carried.all_gather_bytes + carried.reduce_scatter_bytes + carried.all_reduce_bytes;
}

std::string whole(double count) { return with_commas(std::llround(count)); }

}  // namespace

double DeviceWork::lower_bound() const { return *std::ranges::max_element(engine_seconds); }

DeviceWork DeviceWork::operator-(const DeviceWork& before) const {
  DeviceWork difference{.compilations = compilations - before.compilations,
                        .persistent_hits = persistent_hits - before.persistent_hits};
  for (size_t i = 0; i < engine_seconds.size(); ++i)
    difference.engine_seconds[i] = engine_seconds[i] - before.engine_seconds[i];
  return difference;
}

DeviceWork read_device_work() {
  DeviceWork work;
  for (const DeviceCount& count : device_counts()) {
    if (count.name == "total_compilations") work.compilations = count.value;
    if (count.name == "persistent_hits") work.persistent_hits = count.value;
    const auto engine = std::ranges::find(kEngines, count.name);
    if (engine != std::end(kEngines))
      work.engine_seconds[static_cast<size_t>(engine - std::begin(kEngines))] = count.value;
  }
  return work;
}

std::string device_work_line(std::string_view what, const DeviceWork& work, bool emulated) {
  return format(
      "Neuron: {} compiled {} operator{}{}, {} came from the disk cache; its time, simulated, a lower bound: "
      "{}s",
      what, whole(work.compilations), work.compilations == 1 ? "" : "s", emulated ? " (emulated)" : "",
      whole(work.persistent_hits), fixed(work.lower_bound(), 6));
}

void DeviceActivity::start(const GroupCounters& carried) {
  *this = {};
  carried_bytes_ = bytes_of(carried);
  last_ = read_device_work();
}

DeviceWork DeviceActivity::since_last(const GroupCounters& carried) {
  count_device_link_bytes(static_cast<double>(bytes_of(carried) - carried_bytes_));
  carried_bytes_ = bytes_of(carried);
  const DeviceWork now = read_device_work(), work = now - last_;
  last_ = now;
  window_compilations_ += work.compilations;
  return work;
}

void DeviceActivity::end_step(int64_t step, const GroupCounters& carried) {
  const ProvidedDevice* device = taken_device();
  if (!device) return;
  const DeviceWork work = since_last(carried);
  window_bound_ += work.lower_bound();
  ++window_steps_;
  if (first_ || work.compilations > 0)
    log_info("{}", device_work_line(format("step {}", step), work, device->emulated));
  first_ = false;
}

void DeviceActivity::end_of(std::string_view what, const GroupCounters& carried) {
  const ProvidedDevice* device = taken_device();
  if (!device) return;
  const DeviceWork work = since_last(carried);
  if (work.compilations > 0) log_info("{}", device_work_line(what, work, device->emulated));
}

std::vector<Scalar> DeviceActivity::take_window() {
  if (!taken_device()) return {};
  const double steps = static_cast<double>(std::max<int64_t>(window_steps_, 1));
  std::vector<Scalar> scalars = {{"neuron/compilations", window_compilations_},
                                 {"neuron/step_lower_bound(s)", window_bound_ / steps}};
  window_compilations_ = window_bound_ = 0;
  window_steps_ = 0;
  return scalars;
}

}  // namespace titan
