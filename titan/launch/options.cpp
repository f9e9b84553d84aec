#include "titan/launch/options.h"

#include <glob.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/launch/flags.h"
#include "titan/neuron/rt/instance.h"

namespace titan {
namespace {

int64_t cpu_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  check(::sched_getaffinity(0, sizeof set, &set) == 0, "a process may ask which cores it has");
  return CPU_COUNT(&set);
}

/// GPUs that workers would see: CUDA_VISIBLE_DEVICES, else the driver's devices.
int64_t gpu_count() {
  glob_t found{};
  const bool any = ::glob("/dev/nvidia[0-9]*", 0, nullptr, &found) == 0;
  const auto devices = any ? static_cast<int64_t>(found.gl_pathc) : 0;
  ::globfree(&found);
  const auto visible = env("CUDA_VISIBLE_DEVICES");
  if (!visible) return devices;
  const auto listed = static_cast<int64_t>(split(*visible, ',').size());
  return visible->starts_with("-") ? 0 : std::min(listed, devices);
}

/// What `auto` means: the visible cores of the emulated Neuron machine where TITAN_NEURON_PROVIDER asks for
/// it, else GPUs, else processor cores.
int64_t automatic_count(std::string_view flag) {
  const auto provider = env("TITAN_NEURON_PROVIDER");
  if (provider && *provider != "emulator") {
    throw ConfigError(
        "{}=auto: TITAN_NEURON_PROVIDER names the library {}, and only that knows how many cores there are; "
        "give a number",
        flag, *provider);
  }
  if (provider) return static_cast<int64_t>(neuron::Instance::from_env().visible_cores.size());
  return gpu_count() > 0 ? gpu_count() : cpu_count();
}

int64_t local_world_size(const TorchrunWords& words) {
  const std::string text = words.text_or("nproc-per-node", "1"), flag = words.shown("nproc-per-node");
  if (text == "cpu") return cpu_count();
  if (text == "auto") return automatic_count(flag);
  if (text == "gpu") {
    if (gpu_count() == 0)
      throw ConfigError("{}=gpu: this machine shows no GPU; give a number or `cpu`", flag);
    return gpu_count();
  }
  if (text.empty() || (text[0] != '-' && (text[0] < '0' || text[0] > '9'))) {
    throw ConfigError("{} must be a number, auto, cpu or gpu, got {}", flag, text);
  }
  const int64_t number = whole_number(text, flag, 1);
  constexpr int64_t kMostWorkers = 4096;
  if (number > kMostWorkers) throw ConfigError("{} must be at most {}, got {}", flag, kMostWorkers, text);
  return number;
}

void read_nodes(const TorchrunWords& words, TorchrunOptions& options) {
  const std::string text = words.text_or("nnodes", "1:1"), flag = words.shown("nnodes");
  const std::vector<std::string> ends = split(text, ':');
  if (ends.size() > 2) throw ConfigError("{} must be N or MIN:MAX, got {}", flag, text);
  options.min_nodes = whole_number(ends.front(), flag, 1);
  options.max_nodes = whole_number(ends.back(), flag, 1);
  if (options.min_nodes > options.max_nodes) {
    throw ConfigError("{} must be MIN:MAX with MIN not above MAX, got {}", flag, text);
  }
}

void read_rendezvous_settings(const TorchrunWords& words, TorchrunOptions& options) {
  const std::string flag = words.shown("rdzv-conf");
  const std::vector<std::string> known = {
      "join_timeout",           "timeout",       "last_call_timeout", "is_host",      "keep_alive_interval",
      "keep_alive_max_attempt", "close_timeout", "heartbeat_timeout", "read_timeout", "store_type"};
  for (const auto& [key, value] : parse_key_values(words.text_or("rdzv-conf", ""), flag)) {
    const std::string name = flag + ": " + key;
    if (key == "join_timeout" || key == "timeout") {
      options.times.join = std::chrono::seconds(whole_number(value, name, 1));
    } else if (key == "last_call_timeout") {
      options.times.last_call = std::chrono::seconds(whole_number(value, name, 0));
    } else if (key == "keep_alive_interval") {
      options.times.keep_alive_interval = std::chrono::seconds(whole_number(value, name, 1));
    } else if (key == "keep_alive_max_attempt") {
      options.times.keep_alive_attempts = whole_number(value, name, 1);
    } else if (key == "is_host") {
      const bool yes = value == "1" || value == "true" || value == "True" || value == "t";
      if (!yes && value != "0" && value != "false" && value != "False" && value != "f") {
        throw ConfigError("{} must be true or false, got {}", name, value);
      }
      options.is_host = yes;
    } else if (key == "store_type" && value == "tcp") {
      continue;
    } else if (key == "close_timeout" || key == "heartbeat_timeout" || key == "read_timeout") {
      options.warnings.push_back(format("{} has no effect: a lost connection is noticed by itself", name));
    } else {
      throw ConfigError("{}: {}={} is not known here{}; known are {}", flag, key, value,
                        did_you_mean(key, known),
                        "join_timeout, timeout, last_call_timeout, is_host, "
                        "keep_alive_interval and keep_alive_max_attempt");
    }
  }
}

/// 32 random digits in the form of a UUID.
std::string random_id() {
  std::string id = read_file("/proc/sys/kernel/random/uuid");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

void read_rendezvous(const TorchrunWords& words, TorchrunOptions& options) {
  const std::string backend = words.text_or("rdzv-backend", "static");
  options.run_id = words.text_or("rdzv-id", "none");
  options.node_rank = words.integer("node-rank", 0, 0);
  const std::string endpoint = words.text_or("rdzv-endpoint", "");
  const bool meets_nobody =
      backend == "static" && endpoint.empty() && !words.has("master-port") && options.max_nodes == 1;
  if (words.is_on("standalone") || meets_nobody) {
    if (options.max_nodes > 1) {
      throw ConfigError("--standalone is for one node, got --nnodes={}", words.text_or("nnodes", ""));
    }
    options.endpoint = {"localhost", 0};
    options.run_id = random_id();
    return;
  }
  if (backend == "static") {
    options.backend = RendezvousBackend::fixed;
    options.min_nodes = options.max_nodes;  // every rank has its node
    options.endpoint = {words.text_or("master-addr", "127.0.0.1"), words.integer("master-port", 29500, 0)};
    if (!endpoint.empty()) {
      options.endpoint = Endpoint::parse(endpoint, 29500, words.shown("rdzv-endpoint"));
    } else {
      options.endpoint = Endpoint::parse(options.endpoint.text(), 29500, words.shown("master-port"));
    }
    if (options.node_rank >= options.max_nodes) {
      throw ConfigError("{} must be below the {} nodes of --nnodes, got {}", words.shown("node-rank"),
                        options.max_nodes, options.node_rank);
    }
    if (options.endpoint.port == 0 && options.max_nodes > 1) {
      throw ConfigError("--rdzv_backend=static with {} nodes needs a port that they all know: --master_port",
                        options.max_nodes);
    }
    return;
  }
  if (backend != "c10d") {
    throw ConfigError("{}={} is not supported: c10d (nodes in order of arrival) or static (by --node_rank)",
                      words.shown("rdzv-backend"), backend);
  }
  options.endpoint = Endpoint::parse(endpoint, 29400, words.shown("rdzv-endpoint"));
  for (const char* name : {"node-rank", "master-addr", "master-port"}) {
    if (words.has(name)) {
      options.warnings.push_back(format("{} has no effect with --rdzv_backend=c10d", words.shown(name)));
    }
  }
}

/// Words by comma; a double comma is a comma.
std::vector<std::string> filter_words(const std::string& text) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',' && i + 1 < text.size() && text[i + 1] == ',') {
      words.back() += text[i++];
    } else if (text[i] == ',') {
      words.emplace_back();
    } else {
      words.back() += text[i];
    }
  }
  std::erase(words, "");
  return words;
}

void read_logs(const TorchrunWords& words, TorchrunOptions& options) {
  options.role = words.text_or("role", "default");
  options.tee = StreamChoice::parse(words.text_or("tee", "0"), words.shown("tee"));
  options.redirects = StreamChoice::parse(words.text_or("redirects", "0"), words.shown("redirects"));
  options.log_dir = words.text_or("log-dir", "");
  options.stdout_filters = filter_words(words.text_or("duplicate-stdout-filters", ""));
  options.stderr_filters = filter_words(words.text_or("duplicate-stderr-filters", ""));
  const auto filter = words.text("local-ranks-filter");
  if (!filter || filter->empty()) return;
  for (const std::string& rank : split(*filter, ',')) {
    options.local_ranks_filter.insert(whole_number(trim(rank), words.shown("local-ranks-filter"), 0));
  }
  if (*options.local_ranks_filter.begin() >= options.local_world_size) {
    options.warnings.push_back(format("{}={}: none of the {} workers of this node is shown",
                                      words.shown("local-ranks-filter"), *filter, options.local_world_size));
  }
}

std::vector<int> read_signals(const TorchrunWords& words) {
  constexpr std::pair<std::string_view, int> kKnown[] = {
      {"SIGTERM", SIGTERM}, {"SIGINT", SIGINT},   {"SIGHUP", SIGHUP},   {"SIGQUIT", SIGQUIT},
      {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGALRM", SIGALRM}, {"SIGXCPU", SIGXCPU}};
  std::vector<int> signals;
  for (const std::string& name :
       split(words.text_or("signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"), ',')) {
    const std::string_view wanted = trim(name);
    const auto* found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                     [&](const auto& known) { return known.first == wanted; });
    if (found == std::end(kKnown)) {
      throw ConfigError("{}: {} is no signal that can be passed on", words.shown("signals-to-handle"), name);
    }
    signals.push_back(found->second);
  }
  return signals;
}

void refuse_python_only(const TorchrunWords& words) {
  const std::pair<const char*, const char*> refused[] = {
      {"run-path", "it runs a script inside Python; use --no_python python3 SCRIPT"},
      {"logs-specs", "it names a Python class; see --tee, --redirects and --log_dir"},
      {"numa-binding", "bind workers with --no_python numactl ..."}};
  for (const auto& [name, reason] : refused) {
    if (words.has(name)) throw ConfigError("{} is not supported: {}", words.shown(name), reason);
  }
}

void read_rest(const TorchrunWords& words, TorchrunOptions& options) {
  options.max_restarts = words.integer("max-restarts", 0, 0);
  options.local_addr = words.text_or("local-addr", "");
  options.virtual_local_rank = words.is_on("virtual-local-rank");
  options.signals = read_signals(words);
  const auto elastic_timeout = env("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  const int64_t grace =
      elastic_timeout ? whole_number(*elastic_timeout, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 0) : 30;
  options.shutdown_timeout = std::chrono::seconds(words.integer("shutdown-timeout", grace, 0));
  (void)words.number("monitor-interval", 0.1);  // ends are noticed at once; only checked
  if (const std::string method = words.text_or("start-method", "spawn"); method != "spawn") {
    options.warnings.push_back(
        format("{}={} has no effect: workers are programs", words.shown("start-method"), method));
  }
  if (const std::string handler = words.text_or("event-log-handler", "null"); handler != "null") {
    options.warnings.push_back(format("{}={} has no effect: there are no event handlers here",
                                      words.shown("event-log-handler"), handler));
  }
}

}  // namespace

int StreamChoice::value(int64_t local_rank) const {
  if (by_rank.empty()) return everyone;
  const auto found = by_rank.find(local_rank);
  return found == by_rank.end() ? 0 : found->second;
}

StreamChoice StreamChoice::parse(std::string_view text, std::string_view flag) {
  const auto streams = [&](std::string_view value) {
    if (value.size() == 1 && value[0] >= '0' && value[0] <= '3') return value[0] - '0';
    throw ConfigError("{} must be 0, 1 (stdout), 2 (stderr), 3 (both) or RANK:0-3,RANK:0-3, got {}", flag,
                      text);
  };
  StreamChoice choice;
  if (text.find(':') == std::string_view::npos) {
    choice.everyone = streams(text);
    return choice;
  }
  for (const std::string& pair : split(text, ',')) {
    const size_t colon = pair.find(':');
    const std::string_view value = colon == std::string::npos ? "" : std::string_view(pair).substr(colon + 1);
    choice.by_rank[whole_number(pair.substr(0, colon), flag, 0)] = streams(value);
  }
  return choice;
}

TorchrunOptions parse_torchrun_options(std::span<const std::string> args) {
  const TorchrunWords words(args);
  TorchrunOptions options;
  options.help = words.help();
  if (options.help) return options;
  refuse_python_only(words);
  read_nodes(words, options);
  options.local_world_size = local_world_size(words);
  read_rendezvous(words, options);
  read_rendezvous_settings(words, options);
  read_logs(words, options);
  read_rest(words, options);
  options.module = words.is_on("module");
  options.no_python = words.is_on("no-python");
  if (options.module && options.no_python) {
    throw ConfigError("--module and --no_python exclude each other: a module, or a program");
  }
  if (words.program().empty()) {
    throw ConfigError("titan torchrun: what to start? `-m titan.train ...`, or --no_python PROGRAM ...");
  }
  options.program = words.program().front();
  options.program_args.assign(words.program().begin() + 1, words.program().end());
  return options;
}

std::string torchrun_help() {
  std::string help =
      "titan torchrun: start the workers of a job on this node\n\n"
      "Usage: titan torchrun [FLAGS] -m titan.train --module M --config C [--section.field value ...]\n"
      "       titan torchrun [FLAGS] --no_python PROGRAM [ARGUMENTS]\n\n"
      "Flags are torchrun's, with - or _ inside; PET_<NAME> sets one that is not given. In ARGUMENTS "
      "${local_rank}\n"
      "stands for the worker's local rank.\n\n";
  for (const TorchrunFlag& flag : torchrun_flags()) {
    const std::string letter = flag.letter == 0 ? "    " : format("-{}, ", std::string(1, flag.letter));
    std::string line = format("  {}--{}{}{}", letter, flag.name, flag.value.empty() ? "" : " ", flag.value);
    line.resize(std::max<size_t>(line.size() + 1, 46), ' ');
    help += format("{}{}\n", line, flag.help);
  }
  return help +
         "\nExit codes: 0, 1 after a failure, 2 for a mistake in the flags, 128 + a signal's number.\n";
}

}  // namespace titan
