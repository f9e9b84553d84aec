// `titan train`: one training run.

#include <algorithm>
#include <iostream>

#include "apps/titan/commands.h"
#include "titan/base/build_info.h"
#include "titan/base/log.h"
#include "titan/config/dump.h"
#include "titan/recipes/resolve.h"
#include "titan/train/train_loop.h"

namespace titan {
namespace {

constexpr const char* kTrainUsage =
    "titan train: train a model\n\n"
    "Usage: titan train --module M --config C [--section.field value ...]\n"
    "       titan train --config FILE.json [--section.field value ...]\n\n"
    "  --module M    a built-in module, or M.cpp or M.so in this folder or in TITAN_MODULE_PATH\n"
    "  --config C    a config function of the module, or a file that `titan config --json` printed\n\n"
    "TITAN_NUM_THREADS sets the number of threads. Exit codes: 0 trained, 2 a mistake in the configuration, "
    "1 any\n"
    "other error, 130 and 143 stopped by SIGINT and SIGTERM.\n";

bool takes_help(std::vector<std::string>& words) {
  return std::erase_if(words, [](const std::string& word) { return word == "--help" || word == "-h"; }) > 0;
}

}  // namespace

int train_command(std::span<const std::string> args) {
  std::vector<std::string> words(args.begin(), args.end());
  if (takes_help(words)) {
    std::cout << kTrainUsage << "\nFields, as --name TYPE (value) meaning:\n"
              << help_text(unchecked_config(words).node());
    return 0;
  }
  const BuildInfo& build = build_info();
  log_info("titan version: {} (commit {}, torch {})", build.version, build.commit, build.torch_version);
  ResolvedConfig resolved = resolve_config(words);
  TrainingRun run = build_run({.config = *resolved.config,
                               .shown_config = to_json(resolved.before_overrides.node()),
                               .override_lines = std::move(resolved.override_lines)});
  return train(run);
}

}  // namespace titan
