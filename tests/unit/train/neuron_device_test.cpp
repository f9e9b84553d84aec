// What the host asks of a neuron device and says about it, with a device that counts what the test tells it.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "titan/base/file.h"
#include "titan/base/json.h"
#include "titan/base/strings.h"
#include "titan/ops/device.h"
#include "titan/train/device_activity.h"
#include "titan/train/device_memory.h"
#include "titan/train/log_line.h"
#include "titan/train/metrics.h"
#include "titan/train/peak_flops.h"
#include "titan/train/phase.h"

namespace titan {
namespace {

std::string provider_path(const std::string& name) {
  const auto program = std::filesystem::canonical("/proc/self/exe");
  return (program.parent_path().parent_path() / "lib/neuron_providers" / (name + ".so")).string();
}

const ProvidedDevice& device() { return take_neuron_device(provider_path("counts"), 5, 1, 4); }

void set_count(const char* name, double value) {
  device();
  void* library = dlopen(provider_path("counts").c_str(), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  const auto set = reinterpret_cast<void (*)(const char*, double)>(dlsym(library, "titan_test_set_count"));
  REQUIRE((set != nullptr));
  set(name, value);
}

double scalar(const std::vector<Scalar>& scalars, const std::string& tag) {
  const auto found = std::ranges::find(scalars, tag, &Scalar::first);
  REQUIRE_MESSAGE(found != scalars.end(), tag);
  return found->second;
}

}  // namespace

TEST_CASE("A device is taken once, told the place of the process, and described as it says") {
  const ProvidedDevice& taken = device();
  CHECK(&take_neuron_device("another", 0, 0, 1) == &taken);
  CHECK(taken_device() == &taken);
  CHECK(taken.device == c10::Device(c10::DeviceType::PrivateUse1, 0));
  CHECK(taken.device.str() == "neuron:0");
  CHECK(device_count("started.rank") == 5);
  CHECK(device_count("started.local_rank") == 1);
  CHECK(device_count("started.local_world_size") == 4);
  CHECK(device_count("nothing of the kind") == 0);
}

TEST_CASE("All counts arrive, however many there are") {
  for (int i = 0; i < 200; ++i) set_count(format("count.{}", i).c_str(), i);
  for (int i = 0; i < 200; ++i) CHECK(device_count(format("count.{}", i)) == i);
}

TEST_CASE("The banner's line, the peak rate and the step line say what the device says") {
  device();
  const DeviceInfo info = device_info("neuron");
  CHECK(info.device == c10::Device(c10::DeviceType::PrivateUse1, 0));
  CHECK(capacity_line(info) == "NEURON capacity: neuron (made for tests) with 3.00GiB memory");
  const PeakFlops peak = peak_flops("neuron", info.name);
  CHECK(peak.flops == 2e12);
  CHECK(peak.source == "documented for neuron (made for tests)");

  set_count("active_bytes.all.peak", 0.25 * kGiB);
  set_count("reserved_bytes.all.peak", 0.75 * kGiB);
  set_count("num_alloc_retries", 7);
  set_count("num_ooms", 2);
  const MemoryStats memory = peak_memory(info);
  CHECK(memory.max_active_gib == 0.25);
  CHECK(memory.max_reserved_gib == 0.75);
  CHECK(memory.max_reserved_pct == 25);
  CHECK(memory.num_alloc_retries == 7);
  CHECK(memory.num_ooms == 2);
  CHECK(step_line({.step = 1, .memory = memory}, {}).find("  NEURON memory:  0.75GiB(25.00%)  ") !=
        std::string::npos);
  CHECK(validate_line(1, 2, memory, 3, {}).find("  NEURON memory:  0.75GiB(25.00%)  ") != std::string::npos);
  const double resets = device_count("resets");
  reset_peak_memory(info);
  reset_peak_memory(device_info("cpu"));
  CHECK(device_count("resets") == resets + 1);
}

TEST_CASE("Metrics count what the device does after they start, and begin a new peak with each logged step") {
  const auto folder = std::filesystem::temp_directory_path() / format("titan_neuron_metrics_{}", getpid());
  MetricsConfig config;
  config.enable_jsonl = true;
  World world(Launch{}, ParallelDims{}, std::chrono::seconds(1));
  set_count("total_compilations", 1000);
  MetricsProcessor metrics(
      config,
      {.dump_folder = folder, .device = device_info("neuron"), .peak = {.flops = 1e12}, .world = &world});
  metrics.start();
  set_count("total_compilations", 1007);
  const double resets = device_count("resets");
  metrics.add_batch(0, 10);
  metrics.count_step(1);
  metrics.log_step({.step = 1}, {});
  CHECK(device_count("resets") == resets + 1);
  const Json line = Json::parse(read_file(folder / "metrics.jsonl"), "metrics.jsonl");
  CHECK(line["neuron/compilations"].as_double() == 7);
  set_count("total_compilations", 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("A phase names what the device's memory is used for") {
  device();
  const double before = device_count("phase.optimizer");
  {
    const Phase phase("optimizer");
  }
  CHECK(device_count("phase.optimizer") == before + 1);
}

TEST_CASE("A step's work is the difference of the counters, and its lower bound the busiest engine's time") {
  set_count("total_compilations", 10);
  set_count("persistent_hits", 1);
  set_count("simulated.tensor_s", 5);
  set_count("simulated.hbm_s", 5);
  DeviceActivity activity;
  const double told = device_count("link_bytes");
  activity.start({.all_gather_bytes = 1000});
  set_count("total_compilations", 153);
  set_count("persistent_hits", 4);
  set_count("simulated.tensor_s", 5.5);
  set_count("simulated.vector_s", 0.125);
  set_count("simulated.hbm_s", 5.75);
  const DeviceWork first = read_device_work();
  activity.end_step(1, {.all_gather_bytes = 1100, .reduce_scatter_bytes = 20, .all_reduce_bytes = 3});
  CHECK(device_count("link_bytes") == told + 123);
  set_count("simulated.link_s", 0.25);
  set_count("simulated.gpsimd_s", 0.375);
  activity.end_step(2, {.all_gather_bytes = 1101, .reduce_scatter_bytes = 20, .all_reduce_bytes = 3});
  CHECK(device_count("link_bytes") == told + 124);

  const auto window = activity.take_window();
  CHECK(scalar(window, "neuron/compilations") == 143);
  CHECK(scalar(window, "neuron/step_lower_bound(s)") == (0.75 + 0.375) / 2);
  CHECK(scalar(activity.take_window(), "neuron/compilations") == 0);

  const DeviceWork work = first - DeviceWork{.compilations = 10, .persistent_hits = 1};
  CHECK(
      device_work_line("step 1", work, true) ==
      "Neuron: step 1 compiled 143 operators (emulated), 3 came from the disk cache; its time, simulated, a "
      "lower bound: 5.750000s");
  CHECK(device_work_line("saving", work, false).starts_with("Neuron: saving compiled 143 operators, 3 came"));
}

}  // namespace titan
