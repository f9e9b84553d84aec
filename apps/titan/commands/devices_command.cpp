// `titan devices`: the emulated Neuron machine as neuron-ls shows a real one, and who uses how much of it.

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <ctime>
#include <iostream>
#include <thread>

#include "apps/titan/commands.h"
#include "apps/titan/commands/arguments.h"
#include "titan/base/build_info.h"
#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/json.h"
#include "titan/base/strings.h"
#include "titan/neuron/rt/core_claim.h"
#include "titan/neuron/rt/cost.h"
#include "titan/neuron/rt/instance.h"

namespace titan {
namespace {

using neuron::CoreUse;
using neuron::Instance;
using TableRow = std::vector<std::string>;

/// The neighbours of a chip in the 4x4 torus in neuron-ls's order: above, left, below, right.
std::array<int64_t, 4> neighbours_of(int64_t chip) {
  const int64_t row = chip / 4, column = chip % 4;
  const auto at = [](int64_t r, int64_t c) { return (r + 4) % 4 * 4 + (c + 4) % 4; };
  return {at(row - 1, column), at(row, column - 1), at(row + 1, column), at(row, column + 1)};
}

/// The chip of a process, whose LNC may be another than this environment's.
int64_t chip_of(const CoreUse& use) { return use.core * use.lnc / Instance::kPhysicalCoresPerChip; }

std::vector<int64_t> cores_of_chip(int64_t chip, const Instance& instance) {
  std::vector<int64_t> cores(static_cast<size_t>(instance.cores_per_chip()));
  for (size_t i = 0; i < cores.size(); ++i) {
    cores[i] = chip * instance.cores_per_chip() + static_cast<int64_t>(i);
  }
  return cores;
}

Json to_json(const CoreUse& use) {
  Json process = Json::object();
  process.set("pid", use.pid);
  process.set("command", use.command);
  process.set("neuron_runtime_version", format("titan {} (emulated)", build_info().version));
  process.set("rank", use.rank);
  process.set("neuroncore_id", use.core);
  process.set("logical_neuroncore_config", use.lnc);
  process.set("hbm_allocated", use.hbm_allocated);
  process.set("hbm_peak", use.hbm_peak);
  process.set("hbm_capacity", use.hbm_capacity);
  process.set("compilations", use.compilations);
  return process;
}

Json to_json(int64_t chip, const Instance& instance, const std::vector<CoreUse>& uses) {
  Json processes = Json::array(), connected = Json::array(), cores = Json::array();
  for (const CoreUse& use : uses) {
    if (chip_of(use) == chip) processes.push_back(to_json(use));
  }
  for (const int64_t neighbour : neighbours_of(chip)) connected.push_back(neighbour);
  for (const int64_t core : cores_of_chip(chip, instance)) cores.push_back(core);
  Json device = Json::object();
  device.set("neuron_device", chip);
  device.set("bdf", "");  // nothing is on a PCI bus
  device.set("cpu_affinity", format("0-{}", std::max(1U, std::thread::hardware_concurrency()) - 1));
  device.set("numa_node", "-1");
  device.set("connected_to", std::move(connected));
  device.set("nc_count", instance.cores_per_chip());
  device.set("logical_neuroncore_config", instance.lnc);
  device.set("memory_size", Instance::kHbmBytesPerChip);
  device.set("neuroncore_ids", std::move(cores));
  device.set("neuron_processes", std::move(processes));
  device.set("emulated", true);
  return device;
}

/// Columns of equal width, two spaces apart; the last one ends where its text does.
std::string table(const std::vector<TableRow>& rows) {
  std::vector<size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string gib(int64_t bytes) { return fixed(static_cast<double>(bytes) / (int64_t{1} << 30), 2) + " GiB"; }

std::string header(const Instance& instance) {
  std::string text = "Emulated Neuron devices: no chip is behind them, and memory is counted by titan.\n";
  if (const auto provider = env("TITAN_NEURON_PROVIDER"); provider && *provider != "emulator") {
    text += format("The device of TITAN_NEURON_PROVIDER={} is not shown here; its own tools show it.\n",
                   *provider);
  }
  text += format("instance-type: trn2.48xlarge (emulated)\nlogical-neuroncore-config: {}\n", instance.lnc);
  text += format("logical cores: {} of {} HBM\n", instance.num_cores(), gib(instance.hbm_bytes));
  if (static_cast<int64_t>(instance.visible_cores.size()) < instance.num_cores()) {
    std::vector<std::string> cores;
    for (const int64_t core : instance.visible_cores) cores.push_back(format("{}", core));
    text += format("visible cores: {}\n", join(cores, ", "));
  }
  return text + "\n";
}

std::string chip_table(const Instance& instance) {
  std::vector<TableRow> rows = {
      {"NEURON DEVICE", "NEURON CORES", "NEURON CORE IDS", "NEURON MEMORY", "CONNECTED DEVICES"}};
  for (int64_t chip = 0; chip < Instance::kChips; ++chip) {
    const std::vector<int64_t> cores = cores_of_chip(chip, instance);
    const auto [above, left, below, right] = neighbours_of(chip);
    rows.push_back({format("{}", chip), format("{}", cores.size()),
                    format("{}-{}", cores.front(), cores.back()),
                    format("{} GB", Instance::kHbmBytesPerChip >> 30),
                    format("{}, {}, {}, {}", above, left, below, right)});
  }
  return table(rows) + "\n";
}

std::string process_table(const Instance& instance, const std::vector<CoreUse>& uses) {
  if (uses.empty()) return "No process uses a core.\n";
  std::vector<TableRow> rows = {
      {"CORE", "CHIP", "RANK", "PID", "HBM NOW", "HBM PEAK", "CAPACITY", "USED", "COMPILATIONS", "COMMAND"}};
  for (const CoreUse& use : uses) {
    const double capacity = static_cast<double>(std::max<int64_t>(use.hbm_capacity, 1));
    const std::string used = fixed(100 * static_cast<double>(use.hbm_allocated) / capacity, 1) + "%";
    std::string core = format("{}", use.core);
    if (use.lnc != instance.lnc) core += format(" (LNC {})", use.lnc);
    rows.push_back({core, format("{}", chip_of(use)), format("{}", use.rank), format("{}", use.pid),
                    gib(use.hbm_allocated), gib(use.hbm_peak), gib(use.hbm_capacity), used,
                    format("{}", use.compilations), use.command});
  }
  return table(rows);
}

/// `text` cut to the terminal's lines and columns, so that redrawing does not scroll.
std::string fitted(const std::string& text, const winsize& window) {
  std::vector<std::string> lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  const size_t rows = std::max<size_t>(window.ws_row, 2) - 1, columns = std::max<size_t>(window.ws_col, 1);
  if (lines.size() > rows) {
    const size_t left_out = lines.size() - rows + 1;
    lines.resize(rows - 1);
    lines.push_back(format("({} more lines)", left_out));
  }
  for (std::string& line : lines) {
    if (line.size() > columns) line.resize(columns);
  }
  return join(lines, "\n") + "\n";
}

/// Redraws a terminal; the table of chips, which never changes, gives way to processes where both do not fit.
void draw(const Instance& instance, const std::vector<CoreUse>& uses, const winsize& window) {
  const std::string before = header(instance), after = process_table(instance, uses);
  std::string text = before + chip_table(instance) + after;
  if (std::count(text.begin(), text.end(), '\n') >= window.ws_row) text = before + after;
  std::cout << "\x1b[H\x1b[2J" << fitted(text, window);
}

void show(const Arguments& arguments) {
  const Instance instance = Instance::from_env();
  const std::vector<CoreUse> uses = neuron::cores_in_use();
  winsize window{};
  if (arguments.has("json")) {
    Json devices = Json::array();
    for (int64_t chip = 0; chip < Instance::kChips; ++chip) devices.push_back(to_json(chip, instance, uses));
    std::cout << devices.dump(arguments.has("watch") ? -1 : 2) << "\n";
  } else if (arguments.has("watch") && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 &&
             window.ws_row > 0) {
    draw(instance, uses, window);  // only terminals have a size
  } else {
    std::cout << header(instance) << chip_table(instance) << process_table(instance, uses);
  }
  std::cout.flush();
}

/// Shows again and again until Ctrl-C or SIGTERM, or until nobody reads on.
void watch(const Arguments& arguments) {
  const double seconds = arguments.number("watch", 1, 0.1);
  if (seconds > 86400)
    throw ConfigError("titan devices: --watch must be at most 86400 seconds, got {}", seconds);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  // Blocked, so that a signal is kept until the wait below takes it.
  check(::sigprocmask(SIG_BLOCK, &ends, nullptr) == 0, "signals can be blocked");
  timespec pause{};
  pause.tv_sec = static_cast<time_t>(seconds);
  pause.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  do show(arguments);
  while (std::cout && ::sigtimedwait(&ends, nullptr, &pause) < 0);
}

/// `--watch` alone means every second.
std::vector<std::string> with_watch_period(std::span<const std::string> args) {
  std::vector<std::string> words(args.begin(), args.end());
  for (size_t i = 0; i < words.size(); ++i) {
    const bool alone = i + 1 == words.size() || words[i + 1].starts_with("--");
    if (words[i] == "--watch" && alone) words[i] = "--watch=1";
  }
  return words;
}

}  // namespace

int devices_command(std::span<const std::string> args) {
  const std::vector<std::string> words = with_watch_period(args);
  const Arguments arguments(
      "devices",
      {{"json", "", "an array of devices with neuron-ls's keys, and emulated: true"},
       {"cost-table", "", "the rates that simulated time is computed from, as a table"},
       {"watch", "[SECONDS]", "show again every SECONDS (1) until Ctrl-C; with --json one line each time"}},
      words);
  if (arguments.help_shown()) return 0;
  if (arguments.has("cost-table")) {
    if (arguments.has("json") || arguments.has("watch")) {
      throw ConfigError("titan devices: --cost-table stands alone; it is neither JSON nor does it change");
    }
    std::cout << neuron::cost_table(Instance::from_env().lnc);
  } else if (arguments.has("watch")) {
    watch(arguments);
  } else {
    show(arguments);
  }
  return 0;
}

}  // namespace titan
