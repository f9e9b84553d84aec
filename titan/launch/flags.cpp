#include "titan/launch/flags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "titan/base/env.h"
#include "titan/base/error.h"

namespace titan {
namespace {

constexpr std::array kTorchrunFlags = {
    TorchrunFlag{"nnodes", "N|MIN:MAX", "Nodes of the job, or a range (1)"},
    TorchrunFlag{"nproc-per-node", "N|auto|cpu|gpu", "Workers of this node (1)"},
    TorchrunFlag{"rdzv-backend", "c10d|static",
                 "How the nodes meet: in order of arrival, or by --node-rank (static)"},
    TorchrunFlag{"rdzv-endpoint", "HOST[:PORT]",
                 "Where they meet; port 0 is a free one of this node (29400)"},
    TorchrunFlag{"rdzv-id", "ID", "The job's name; nodes of another job are refused (none)"},
    TorchrunFlag{
        "rdzv-conf", "K=V,...",
        "join_timeout, timeout, last_call_timeout, is_host, keep_alive_interval, keep_alive_max_attempt"},
    TorchrunFlag{"standalone", "", "One node that meets nobody; sets the rdzv flags"},
    TorchrunFlag{"max-restarts", "N", "How often all workers are started again after a failure (0)"},
    TorchrunFlag{"monitor-interval", "SECONDS",
                 "Upper bound on noticing a worker's end; it is noticed at once (0.1)"},
    TorchrunFlag{"start-method", "spawn|fork|forkserver", "Without effect: workers are programs"},
    TorchrunFlag{"event-log-handler", "NAME", "Without effect: there are no event handlers"},
    TorchrunFlag{"role", "NAME", "Name in front of the local rank in console lines (default)"},
    TorchrunFlag{"module", "", "What follows is a module: titan.train or torchtitan.train", 'm'},
    TorchrunFlag{"no-python", "", "What follows is any program"},
    TorchrunFlag{"run-path", "", "Refused: runs a Python script inside Python"},
    TorchrunFlag{"log-dir", "DIR", "Folder of the log files (a temporary one)"},
    TorchrunFlag{"redirects", "0-3|RANK:0-3,...", "Streams that go to files: 1 stdout, 2 stderr, 3 both (0)",
                 'r'},
    TorchrunFlag{"tee", "0-3|RANK:0-3,...", "Streams that go to files and, with a prefix, to the console (0)",
                 't'},
    TorchrunFlag{"local-ranks-filter", "RANKS", "Only these local ranks reach the console (all)"},
    TorchrunFlag{"duplicate-stdout-filters", "WORDS",
                 "Teed lines with one of these words also go to filtered_stdout.log"},
    TorchrunFlag{"duplicate-stderr-filters", "WORDS",
                 "Teed lines with one of these words also go to filtered_stderr.log"},
    TorchrunFlag{"node-rank", "N", "This node's rank, with --rdzv-backend=static (0)"},
    TorchrunFlag{"master-addr", "HOST", "Where node 0 is, with --rdzv-backend=static (127.0.0.1)"},
    TorchrunFlag{"master-port", "PORT", "Its port, with --rdzv-backend=static (29500)"},
    TorchrunFlag{"local-addr", "HOST", "The address by which workers reach this node where it is node 0"},
    TorchrunFlag{"logs-specs", "NAME", "Refused: names a Python class"},
    TorchrunFlag{"numa-binding", "MODE", "Refused: bind with numactl and --no-python"},
    TorchrunFlag{"signals-to-handle", "NAMES", "Signals that are passed on (SIGTERM,SIGINT,SIGHUP,SIGQUIT)"},
    TorchrunFlag{"shutdown-timeout", "SECONDS",
                 "From SIGTERM to SIGKILL (TORCH_ELASTIC_SHUTDOWN_TIMEOUT, else 30)"},
    TorchrunFlag{"virtual-local-rank", "",
                 "LOCAL_RANK is 0 everywhere; CUDA_VISIBLE_DEVICES tells workers apart"},
};

/// "nproc-per-node" -> "PET_NPROC_PER_NODE".
std::string variable_of(std::string_view name) {
  std::string variable = "PET_";
  for (const char c : name)
    variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

/// The flag that is written so, exactly or as the only one that begins so.
const TorchrunFlag& flag_named(const std::string& name) {
  std::vector<std::string> names;
  std::vector<const TorchrunFlag*> begun;
  for (const TorchrunFlag& flag : kTorchrunFlags) {
    if (flag.name == name) return flag;
    if (flag.name.starts_with(name)) begun.push_back(&flag);
    names.emplace_back(flag.name);
  }
  if (begun.size() == 1) return *begun.front();
  if (begun.size() > 1) {
    throw ConfigError("titan torchrun: --{} may be --{} or --{}", name, begun[0]->name, begun[1]->name);
  }
  const auto likely = nearest(name, names);
  throw ConfigError("titan torchrun: there is no flag --{}{} (`titan torchrun --help` lists them)", name,
                    likely ? "; did you mean --" + *likely + "?" : "");
}

const TorchrunFlag& flag_with_letter(const std::string& word) {
  for (const TorchrunFlag& flag : kTorchrunFlags) {
    if (flag.letter != 0 && flag.letter == word[1] && (word.size() == 2 || !flag.value.empty())) return flag;
  }
  throw ConfigError("titan torchrun: there is no flag {} (`titan torchrun --help` lists them)", word);
}

}  // namespace

std::span<const TorchrunFlag> torchrun_flags() { return kTorchrunFlags; }

int64_t whole_number(std::string_view text, std::string_view flag, int64_t least) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least) {
    throw ConfigError("{} must be a whole number of at least {}, got {}", flag, least,
                      text.empty() ? "nothing" : text);
  }
  constexpr int64_t kMost = 1'000'000'000;  // of seconds, nodes and times: more would overflow in sums
  if (number > kMost) throw ConfigError("{} must be at most {}, got {}", flag, kMost, text);
  return number;
}

TorchrunWords::TorchrunWords(std::span<const std::string> args) {
  size_t at = 0;
  for (; at < args.size() && args[at].size() > 1 && args[at][0] == '-'; ++at) {
    if (args[at] == "--") {
      ++at;
      break;
    }
    if (args[at] == "--help" || args[at] == "-h") {
      help_ = true;
      return;
    }
    take_flag(args, at);
  }
  program_.assign(args.begin() + static_cast<ptrdiff_t>(at), args.end());
}

void TorchrunWords::take_flag(std::span<const std::string> args, size_t& at) {
  const std::string& word = args[at];
  const bool is_short = !word.starts_with("--");
  const size_t equals = is_short ? std::string::npos : word.find('=');
  std::string name = is_short ? word : word.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::replace(name.begin(), name.end(), '_', '-');
  const TorchrunFlag& flag = is_short ? flag_with_letter(word) : flag_named(name);
  std::optional<std::string> value;
  if (equals != std::string::npos) value = word.substr(equals + 1);
  if (is_short && word.size() > 2) value = word.substr(word[2] == '=' ? 3 : 2);
  if (flag.value.empty()) {
    if (value) throw ConfigError("titan torchrun: --{} takes no value, got {}", flag.name, *value);
    value = "1";
  } else if (!value) {
    if (at + 1 >= args.size() || args[at + 1].starts_with("--")) {
      throw ConfigError("titan torchrun: --{} needs a value: --{} {}", flag.name, flag.name, flag.value);
    }
    value = args[++at];
  }
  given_[std::string(flag.name)] = *value;
}

std::string TorchrunWords::shown(std::string_view name) const {
  return given_.contains(name) ? format("--{}", name) : variable_of(name);
}

std::optional<std::string> TorchrunWords::text(std::string_view name) const {
  const auto found = given_.find(name);
  return found != given_.end() ? std::optional(found->second) : env(variable_of(name).c_str());
}

std::string TorchrunWords::text_or(std::string_view name, std::string_view fallback) const {
  return text(name).value_or(std::string(fallback));
}

bool TorchrunWords::is_on(std::string_view name) const {
  const auto value = text(name);
  if (!value || *value == "0") return false;
  if (*value == "1") return true;
  throw ConfigError("{} must be 0 or 1, got {}", shown(name), *value);
}

int64_t TorchrunWords::integer(std::string_view name, int64_t fallback, int64_t least) const {
  const auto value = text(name);
  return value ? whole_number(*value, shown(name), least) : fallback;
}

double TorchrunWords::number(std::string_view name, double fallback) const {
  const auto value = text(name);
  if (!value) return fallback;
  double number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || end != value->data() + value->size() || !(number > 0) || number > 1e9) {
    throw ConfigError("{} must be a number of seconds above 0, got {}", shown(name), *value);
  }
  return number;
}

}  // namespace titan
