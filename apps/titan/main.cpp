// The program `titan`: a table of commands, each in one of two libraries, which is opened only when needed,
// so that what needs no torch starts in milliseconds.

#include <dlfcn.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "apps/titan/commands.h"

namespace {

constexpr const char* kCoreLibrary = "libtitan_core.so";
constexpr const char* kTorchLibrary = "libtitan.so";

struct Command {
  const char* name;
  const char* library;
  const char* help;
};

constexpr std::array kCommands = {
    Command{"train", kTorchLibrary, "Train a model: --module M --config C [--section.field value ...]"},
    Command{"torchrun", kCoreLibrary,
            "Start the workers of a job: torchrun's flags, then -m titan.train ..."},
    Command{"config", kCoreLibrary, "Print the configuration that `train` would use, or its --summary"},
    Command{"forward", kTorchLibrary, "Logits, loss and gradients of a checkpoint on given tokens"},
    Command{"generate", kTorchLibrary, "Continue a prompt with a Hugging Face checkpoint"},
    Command{"kernel", kTorchLibrary, "NKI kernels: check an override, run a kernel, trace one"},
    Command{"batches", kTorchLibrary, "Write the rows that `train` would train on"},
    Command{"tokenize", kCoreLibrary, "Text from stdin to token ids, or back with --decode"},
    Command{"devices", kCoreLibrary,
            "Neuron devices (emulated): chips, cores, HBM of every rank [--json] [--watch]"},
    Command{"shapes", kTorchLibrary, "Check what a run's modules and kernels demand of their shapes"},
    Command{"store", kTorchLibrary, "Serve the c10d store of a job (torchrun starts it)"},
    Command{"version", kCoreLibrary, "Versions and paths of titan, its compiler and torch [--json]"},
};

void print_help() {
  std::puts("titan: train language models in C++ on libtorch\n\nUsage: titan COMMAND [ARGUMENTS]\n");
  for (const Command& command : kCommands) std::printf("  %-10s %s\n", command.name, command.help);
  std::puts("\n`titan COMMAND --help` says more about one of them.");
}

/// Threads that wait for one another spin only shortly before they sleep: with libgomp's default a run whose
/// cores are shared with other work slows down four times. The policy "active" matters where backward runs on
/// a thread of its own, as it does for a device: libgomp then counts two teams, more threads than cores, and
/// would hardly spin at all. The user's own settings win.
void limit_spinning() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "ACTIVE", /*overwrite=*/0);
  setenv("GOMP_SPINCOUNT", "10000", /*overwrite=*/0);
}

/// Descriptors 0, 1 and 2 that are closed would be taken by the launcher's own files, and workers would
/// inherit those as their console. As with closed ones, reading 0 and writing 1 and 2 fail.
void hold_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) std::exit(1);
  }
}

/// A file that may not grow any more is an error to report, not the end of the process; set for commands that
/// start no other program, which would inherit it. Kineto's own lines on stderr say nothing to users.
void prepare_torch() {
  std::signal(SIGXFSZ, SIG_IGN);
  setenv("KINETO_LOG_LEVEL", "6", /*overwrite=*/0);
  limit_spinning();
}

/// Libraries stay global so that the weak `build<Config>` of the core and of user modules find libtitan.so's.
void* open_library(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (library != nullptr) return library;
  std::fprintf(
      stderr,
      "titan: error: cannot open %s: %s. If torch has moved or changed, build again: make TORCH=DIR\n", name,
      dlerror());
  std::exit(1);
}

template <class Function>
Function* find(void* library, const std::string& symbol) {
  void* found = dlsym(library, symbol.c_str());
  if (found != nullptr) return reinterpret_cast<Function*>(found);
  std::fprintf(stderr, "titan: error: %s is missing: program and libraries are of different builds\n",
               symbol.c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    print_help();
    if (std::fflush(stdout) != 0) return 1;
    return args.empty() ? 2 : 0;
  }
  if (args[0] == "--version") args[0] = "version";

  const auto* command =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& c) { return c.name == args[0]; });
  if (command == kCommands.end()) {
    std::vector<std::string> names;
    for (const Command& known : kCommands) names.emplace_back(known.name);
    return find<decltype(titan::unknown_command)>(open_library(kCoreLibrary), "unknown_command")(args[0],
                                                                                                 names);
  }
  if (args[0] == "torchrun") hold_standard_descriptors();
  // libgomp and Kineto read their variables when they are loaded; workers of torchrun decide for themselves.
  if (command->library == kTorchLibrary) prepare_torch();
  void* library = open_library(command->library);
  auto* function = find<titan::CommandFunction>(library, args[0] + "_command");
  auto* run = find<decltype(titan::run_command)>(library, "run_command");
  return run(function, std::span<const std::string>(args).subspan(1));
}
