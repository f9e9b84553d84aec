// `titan version`: what was built, with what, and which torch a run will load.

#include <algorithm>
#include <iostream>
#include <thread>

#include "apps/titan/commands.h"
#include "titan/base/build_info.h"
#include "titan/base/cpu_isa.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/json.h"
#include "titan/base/strings.h"
#include "titan/neuron/rt/instance.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

/// The version that the installation in `torch_dir` declares (a wheel's version.py, or libtorch's
/// build-version), or
/// "" where there is none. Reading it avoids loading half a gigabyte of libraries.
std::string installed_torch_version(const fs::path& torch_dir) {
  if (!fs::exists(torch_dir / "lib" / "libtorch_cpu.so")) return "";
  if (const fs::path file = torch_dir / "build-version"; fs::exists(file)) {
    return std::string(trim(read_file(file)));
  }
  if (const fs::path file = torch_dir / "version.py"; fs::exists(file)) {
    for (const std::string& line : split(read_file(file), '\n')) {
      if (!line.starts_with("__version__")) continue;
      const auto quoted = split(line, '\'');
      if (quoted.size() == 3) return quoted[1];
    }
  }
  return "unknown version";
}

/// The emulated machine that the environment describes, or what is wrong with the description.
std::string neuron_device() {
  try {
    return format("neuron (emulated trn2.48xlarge, {} logical cores)",
                  neuron::Instance::from_env().num_cores());
  } catch (const ConfigError& error) {
    return format("neuron (emulated, but {})", error.what());
  }
}

std::vector<std::string> find_devices(const fs::path& torch_dir) {
  std::vector<std::string> devices = {
      format("cpu ({} threads, {})", std::thread::hardware_concurrency(), name(cpu_isa())), neuron_device()};
  const fs::path gpus = "/proc/driver/nvidia/gpus";
  if (!fs::exists(torch_dir / "lib" / "libtorch_cuda.so") || !fs::exists(gpus)) return devices;
  const auto count = std::distance(fs::directory_iterator(gpus), fs::directory_iterator());
  if (count > 0) devices.push_back(format("cuda ({} GPUs, experimental)", count));
  return devices;
}

Json describe() {
  const BuildInfo& info = build_info();
  Json devices = Json::array();
  for (const std::string& device : find_devices(info.torch_dir)) devices.push_back(device);
  const std::string found = installed_torch_version(info.torch_dir);
  Json torch = Json::object();
  torch.set("found", found.empty() ? Json() : Json(found));
  torch.set("path", info.torch_dir.string());
  torch.set("built_against", info.torch_version);
  Json out = Json::object();
  out.set("titan", info.version);
  out.set("commit", info.commit);
  out.set("build", info.build_type);
  out.set("compiler", format("{} ({})", info.compiler, info.compiler_version));
  out.set("torch", std::move(torch));
  out.set("devices", std::move(devices));
  out.set("path", executable_path().string());
  return out;
}

void print_text(const Json& about) {
  const Json& torch = about["torch"];
  const std::string found = torch["found"].is_null() ? "not found" : torch["found"].as_string();
  std::vector<std::string> devices;
  for (const Json& device : about["devices"].elements()) devices.push_back(device.as_string());
  std::cout << format("titan {} (commit {}, {})\n", about["titan"].as_string(), about["commit"].as_string(),
                      about["build"].as_string())
            << format("compiler: {}\n", about["compiler"].as_string())
            << format("torch:    {} in {}, built against {}\n", found, torch["path"].as_string(),
                      torch["built_against"].as_string())
            << format("devices:  {}\n", join(devices, ", "))
            << format("program:  {}\n", about["path"].as_string());
}

}  // namespace

int version_command(std::span<const std::string> args) {
  bool as_json = false;
  for (const std::string& arg : args) {
    if (arg == "--json") {
      as_json = true;
    } else if (arg == "--help" || arg == "-h") {
      std::cout
          << "Usage: titan version [--json]\n\nPrints versions and paths of titan, its compiler and torch.\n";
      return 0;
    } else {
      throw ConfigError("titan version: unknown argument '{}'{}", arg,
                        did_you_mean(arg, {"--json", "--help"}));
    }
  }
  const Json about = describe();
  if (as_json) {
    std::cout << about.dump(2) << "\n";
  } else {
    print_text(about);
  }
  return 0;
}

}  // namespace titan
