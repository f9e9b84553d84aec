#include "titan/ops/device.h"

#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "titan/base/device_provider.h"
#include "titan/base/elf.h"
#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/strings.h"

namespace titan {
namespace {

constexpr const char* kProviderVariable = "TITAN_NEURON_PROVIDER";
constexpr std::string_view kEmulator = "emulator", kNeuron = "neuron", kConfigPrefix = "config: ";

struct TakenDevice {
  const DeviceProvider* provider;
  ProvidedDevice device;
};

std::optional<TakenDevice>& taken() {
  static std::optional<TakenDevice> device;
  return device;
}

/// A library that was asked for, and where: the beginning of every message about it.
struct ProviderLibrary {
  std::string path;
  std::string origin;
  bool is_emulator = false;

  template <class... Args>
  [[noreturn]] void refuse(std::string_view fmt, const Args&... args) const {
    throw ConfigError("{}: {} {}", origin, path, format(fmt, args...));
  }
};

/// The emulator lies beside the library that this function is in.
std::string emulator_path() {
  Dl_info own{};
  check(dladdr(reinterpret_cast<const void*>(&emulator_path), &own) != 0, "titan's code is in a library");
  return (std::filesystem::path(own.dli_fname).parent_path() / "libtitan_neuron.so")
      .lexically_normal()
      .string();
}

ProviderLibrary library_of(const std::string& provider) {
  const bool emulator = provider == kEmulator, named = named_provider() == provider;
  return {.path = emulator ? emulator_path() : provider,
          .origin = !named     ? "--device neuron"
                    : emulator ? format("{}={}", kProviderVariable, kEmulator)
                               : kProviderVariable,
          .is_emulator = emulator};
}

void require_library_file(const ProviderLibrary& library) {
  std::error_code ignored;
  const auto status = std::filesystem::status(library.path, ignored);
  const bool there = std::filesystem::exists(status);
  if (!std::filesystem::is_regular_file(status) && library.is_emulator) {
    library.refuse("is not there: this installation of titan is incomplete; build or install it again");
  }
  if (!std::filesystem::is_regular_file(status)) {
    library.refuse("is {}; give the path of a library that brings the device, or '{}'{}",
                   there ? "no file" : "not there", kEmulator,
                   did_you_mean(library.path, {std::string(kEmulator)}));
  }
  try {
    require_whole_library(library.path);
  } catch (const ValueError& error) {
    throw ConfigError("{}: {}", library.origin, error.what());
  }
}

const DeviceProvider& open_provider(const ProviderLibrary& library) {
  require_library_file(library);
  // A name without a slash would be looked for in the system's folders.
  const std::string path = std::filesystem::absolute(library.path).string();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    library.refuse("cannot be opened ({}); give the path of a library built for torch {}, or '{}'",
                   reason ? reason : "no reason is known", TORCH_VERSION, kEmulator);
  }
  using Symbol = const DeviceProvider* (*)();
  const auto symbol = reinterpret_cast<Symbol>(dlsym(handle, kDeviceProviderSymbol));
  if (!symbol) {
    library.refuse(
        "is no provider of a device: it exports no {}; docs/neuron.md says what a provider exports",
        kDeviceProviderSymbol);
  }
  const DeviceProvider* provider = symbol();
  if (!provider) library.refuse("is no provider of a device: {} returns null", kDeviceProviderSymbol);
  return *provider;
}

void require_our_builds(const DeviceProvider& provider, const ProviderLibrary& library) {
  // Of another ABI only this first number can be read.
  if (provider.abi != kDeviceProviderAbi) {
    library.refuse("is a provider of ABI {}, this titan takes ABI {}; build it with this titan's headers",
                   provider.abi, kDeviceProviderAbi);
  }
  const std::string torch = provider.torch_version ? provider.torch_version : "unknown";
  if (torch != TORCH_VERSION) {
    library.refuse("was built for torch {}, this titan runs on torch {}; build it for that one", torch,
                   TORCH_VERSION);
  }
}

void start_provider(const DeviceProvider& provider, const ProviderLibrary& library,
                    const DeviceStart& process) {
  const char* fault = provider.start(&process);
  if (!fault) return;
  const std::string_view text = fault;
  if (text.starts_with(kConfigPrefix)) {
    throw ConfigError("{}: {}", library.origin, text.substr(kConfigPrefix.size()));
  }
  throw ValueError("{}: {}", library.origin, text);
}

void require_neuron(const ProviderLibrary& library, std::string_view name) {
  if (name == kNeuron) return;
  library.refuse("registers '{}', not {}; give a library that brings the {} device, or '{}'", name, kNeuron,
                 kNeuron, kEmulator);
}

void require_registered_device(const ProviderLibrary& library) {
  const c10::DeviceType type = c10::DeviceType::PrivateUse1;
  require_neuron(library, c10::get_privateuse1_backend());
  const bool guarded = c10::impl::hasDeviceGuardImpl(type);
  if (!guarded || c10::impl::getDeviceGuardImpl(type)->deviceCount() < 1) {
    library.refuse("names itself neuron but registers {} with torch; give a library that brings the device",
                   guarded ? "no device" : "no device guard");
  }
}

const DeviceProvider& started_provider(const ProviderLibrary& library, const DeviceStart& process) {
  try {
    const DeviceProvider& provider = open_provider(library);
    require_our_builds(provider, library);
    require_neuron(library, provider.device_type ? provider.device_type : "");
    start_provider(provider, library, process);
    require_registered_device(library);
    return provider;
  } catch (const ValueError&) {
    throw;
  } catch (const std::exception& error) {
    // What torch throws while the library registers itself comes through here.
    throw ValueError("{}: {} failed while it started: {}", library.origin, library.path, error.what());
  }
}

ProvidedDevice described_device(const DeviceProvider& provider) {
  DeviceDescription description{};
  provider.describe(&description);
  return {.device = c10::Device(c10::DeviceType::PrivateUse1, 0),
          .name = description.name,
          .capacity_bytes = description.capacity_bytes,
          .peak_flops = description.peak_flops,
          .emulated = description.emulated != 0};
}

}  // namespace

std::optional<std::string> named_provider() { return env(kProviderVariable); }

const ProvidedDevice& take_neuron_device(const std::string& provider, int64_t rank, int64_t local_rank,
                                         int64_t local_world_size) {
  if (!taken()) {
    const DeviceStart process{.rank = rank, .local_rank = local_rank, .local_world_size = local_world_size};
    const DeviceProvider& started = started_provider(library_of(provider), process);
    taken().emplace(&started, described_device(started));
  }
  return taken()->device;
}

const ProvidedDevice* taken_device() { return taken() ? &taken()->device : nullptr; }

std::vector<DeviceCount> device_counts() {
  if (!taken()) return {};
  std::vector<DeviceStatistic> statistics(64);
  const auto read = [&] {
    return static_cast<size_t>(
        taken()->provider->statistics(statistics.data(), static_cast<int64_t>(statistics.size())));
  };
  size_t count = read();
  if (count > statistics.size()) {
    statistics.resize(count);
    count = std::min(count, read());
  }
  statistics.resize(count);
  std::vector<DeviceCount> counts;
  for (const DeviceStatistic& statistic : statistics) counts.push_back({statistic.name, statistic.value});
  return counts;
}

double device_count(std::string_view name) {
  for (const DeviceCount& count : device_counts()) {
    if (count.name == name) return count.value;
  }
  return 0;
}

void reset_peak_device_memory() {
  if (taken()) taken()->provider->reset_peak_memory();
}

void set_device_phase(const char* phase) {
  if (taken()) taken()->provider->set_phase(phase);
}

void count_device_link_bytes(double bytes) {
  if (taken()) taken()->provider->count_link_bytes(bytes);
}

void count_device_kernel(const DeviceKernelWork& work) {
  if (taken()) taken()->provider->count_kernel(&work);
}

}  // namespace titan
