// `titan kernel check | run | trace`.

#include <iostream>

#include "apps/titan/commands.h"
#include "apps/titan/torch_commands/kernel_library.h"
#include "apps/titan/torch_commands/kernel_run.h"
#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/base/number.h"
#include "titan/config/cli.h"
#include "titan/config/override_imports.h"
#include "titan/ops/device.h"
#include "titan/recipes/resolve.h"
#include "titan/train/kernel_check.h"

namespace titan {
namespace {

constexpr const char* kKernelUsage =
    "titan kernel: NKI kernels, in the simulator\n\n"
    "Usage: titan kernel check --override.imports M --module M --config C [--section.field value ...]\n"
    "                          [--seq_len N] [--strict]\n"
    "       titan kernel run KERNEL [options]\n"
    "       titan kernel trace KERNEL --trace FILE.json [options]\n\n"
    "  check   compares every distinct node that an override puts into the config tree with the one that it\n"
    "          replaces: results, gradients, difference quotients, three runs; exit code 1 where they "
    "differ\n"
    "  run     a kernel of nkilib, or an operator of a module, on drawn or given inputs\n"
    "  trace   the same, with its predicted timeline and a table of its engines\n\n"
    "  --seq_len N  check rows of N tokens (the config's training.seq_len)\n"
    "  --strict     check: float32 has to be equal bit for bit\n\n"
    "`titan kernel run --help` lists kernels and options.\n";

int64_t taken_length(std::vector<std::string>& words, int64_t fallback) {
  const auto text = take_option(words, "seq_len");
  if (!text) return fallback;
  const auto number = parse_number<int64_t>(*text);
  if (!number || *number < 1) throw ConfigError("--seq_len must be a number of tokens, got {}", *text);
  return *number;
}

/// To the log, and to whoever reads the output.
void report_line(const std::string& line) {
  log_info("{}", line);
  std::cout << line << "\n";
}

/// The config's device, taken for this process.
at::Device check_device(const TrainerConfig& config) {
  const auto provider = named_provider();
  switch (config.device.value_or(provider ? DeviceKind::neuron : DeviceKind::cpu)) {
    case DeviceKind::cpu:
      return at::kCPU;
    case DeviceKind::neuron:
      return take_neuron_device(provider.value_or("emulator"), 0, 0, 1).device;
    case DeviceKind::cuda:
      break;
  }
  throw ConfigError("titan kernel check: --device cuda: kernels run on cpu and neuron");
}

int check_command(std::vector<std::string> words) {
  KernelCheckOptions options;
  rename_flag(words, "imports", "override.imports");
  options.is_strict = take_flag(words, "strict");
  options.seq_len = taken_length(words, 0);
  const ResolvedConfig resolved = resolve_config(words);
  if (options.seq_len == 0) options.seq_len = resolved.config->training.seq_len;

  const std::vector<Override> overrides = import_overrides(resolved.config->override.imports);
  if (overrides.empty()) {
    throw ConfigError("titan kernel check: no overrides; name their module with --override.imports");
  }
  const auto claims = claim_nodes(resolved.before_overrides.node(), overrides);
  if (claims.empty()) throw ValueError("no override replaces anything: there is nothing to check");
  options.device = check_device(*resolved.config);
  report_line(format("checked on {}", c10::str(options.device)));
  bool passed = true;
  for (const Replacement& replacement :
       distinct_replacements(resolved.before_overrides.node(), resolved.config.node(), claims)) {
    const KernelCheckReport report = check_replacement(replacement, options);
    for (const std::string& line : report.lines) report_line(line);
    passed = passed && report.passed;
  }
  return passed ? 0 : 1;
}

}  // namespace

extern "C" int kernel_command(std::span<const std::string> args) {
  std::vector<std::string> words(args.begin(), args.end());
  const std::string verb = words.empty() ? "" : words.front();
  const bool wants_help = verb == "--help" || verb == "-h" ||
                          (verb == "check" && (take_flag(words, "help") || std::erase(words, "-h") > 0));
  if (wants_help) {
    std::cout << kKernelUsage;
    return 0;
  }
  if (words.empty()) throw ConfigError("titan kernel: say check, run or trace (`titan kernel --help`)");
  words.erase(words.begin());
  if (verb == "check") return check_command(std::move(words));
  if (verb == "run") return run_kernel_command(std::move(words), KernelVerb::run);
  if (verb == "trace") return run_kernel_command(std::move(words), KernelVerb::trace);
  throw ConfigError("titan kernel {}: there are check, run and trace{}", verb,
                    did_you_mean(verb, std::vector<std::string>{"check", "run", "trace"}));
}

}  // namespace titan
