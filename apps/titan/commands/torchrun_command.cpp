// `titan torchrun`: starts the workers of a job on this node, as PyTorch's torchrun does.

#include <iostream>

#include "apps/titan/commands.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"
#include "titan/launch/agent.h"
#include "titan/launch/options.h"

namespace titan {
namespace {

WorkerGroup::Program program_of(const TorchrunOptions& options) {
  WorkerGroup::Program program;
  if (options.no_python) {
    program.file = find_program(options.program);
    program.args = {options.program};
  } else if (options.module && (options.program == "titan.train" || options.program == "torchtitan.train")) {
    program.file = executable_path().string();
    program.args = {program.file, "train"};
  } else {
    throw ConfigError(
        "titan torchrun cannot start {} {}: it starts `-m titan.train` (or `-m torchtitan.train`), and with "
        "--no_python any "
        "program, such as --no_python python3 SCRIPT",
        options.module ? "the Python module" : "the Python script", options.program);
  }
  program.args.insert(program.args.end(), options.program_args.begin(), options.program_args.end());
  return program;
}

}  // namespace

int torchrun_command(std::span<const std::string> args) {
  const TorchrunOptions options = parse_torchrun_options(args);
  if (options.help) {
    std::cout << torchrun_help();
    return 0;
  }
  for (const std::string& warning : options.warnings) warn_once(warning);
  return run_launcher(options, program_of(options));
}

}  // namespace titan
