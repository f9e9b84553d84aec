// `titan config`: the configuration that `titan train` with the same arguments would use.

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "apps/titan/commands.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/strings.h"
#include "titan/config/cli.h"
#include "titan/config/dump.h"
#include "titan/config/module.h"
#include "titan/config/module_compile.h"
#include "titan/recipes/builtin.h"
#include "titan/recipes/resolve.h"
#include "titan/recipes/status.h"
#include "titan/recipes/summary.h"

namespace titan {
namespace {

constexpr const char* kUsage =
    "titan config: print the configuration that `titan train` with the same arguments would use\n\n"
    "Usage: titan config --module M --config C [--section.field value ...] [--json | --diff | --summary]\n"
    "       titan config --config FILE.json [...]     what --json printed\n"
    "       titan config --module M --compile-to FILE.so\n\n"
    "  --module M    a built-in module, or M.cpp or M.so in this folder or in TITAN_MODULE_PATH\n"
    "  --config C    a config function of the module\n"
    "  --json        as JSON, before overrides; --config FILE.json reads it\n"
    "  --diff        only what differs from the defaults\n"
    "  --summary     parameters and FLOPs of the model\n"
    "  --status      every field of titan with its status, as Markdown\n"
    "  --compile-to  compile the module for use without a compiler, by the same build of titan\n";

/// What to print; more than one of them makes no sense.
enum class View { tree, json, diff, summary, status, help };

View take_view(std::vector<std::string>& words) {
  View view = View::tree;
  std::string chosen;
  const auto choose = [&](std::string_view flag, View meant) {
    if (!take_flag(words, flag)) return;
    if (!chosen.empty()) throw ConfigError("--{} and --{} exclude each other", chosen, flag);
    view = meant;
    chosen = flag;
  };
  choose("json", View::json);
  choose("diff", View::diff);
  choose("summary", View::summary);
  choose("status", View::status);
  choose("help", View::help);
  if (std::erase(words, "-h") > 0) view = View::help;
  return view;
}

void compile_to(std::vector<std::string> words, const std::string& target) {
  const auto name = take_option(words, "module");
  if (!name) throw ConfigError("--compile-to needs --module");
  if (!words.empty()) throw ConfigError("--compile-to takes nothing but --module; got {}", words.front());
  const LoadedModule module = load_module(*name, builtin_module_names());
  if (module.file.extension() == ".so") throw ConfigError("{} is compiled already", module.file.string());
  write_file_atomic(target, read_file(compiled_module(module.file)));
}

/// Whether a module of the user's has brought the library on torch.
bool uses_torch() { return dlsym(RTLD_DEFAULT, "shapes_command") != nullptr; }

/// This library was loaded without the one that builds modules, and cannot take it in any more: a new program
/// can. Does not return.
[[noreturn]] void go_on_as_shapes_command(std::vector<std::string> words) {
  const std::string program = executable_path().string();
  words.insert(words.begin(), {program, "shapes", "--said"});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  throw ValueError("{} cannot be started: {}", program, std::strerror(errno));
}

void print(const ResolvedConfig& resolved, View view) {
  for (const std::string& line : resolved.override_lines) {
    if (view == View::tree) std::cout << line << "\n";
  }
  switch (view) {
    case View::json:
      std::cout << to_json(resolved.before_overrides.node()).dump(2) << "\n";
      break;
    case View::diff:
      std::cout << diff_text(resolved.config.node());
      break;
    case View::summary:
      std::cout << summary(*resolved.config);
      break;
    default:
      std::cout << to_tree_text(resolved.config.node());
      break;
  }
}

}  // namespace

int config_command(std::span<const std::string> args) {
  std::vector<std::string> words(args.begin(), args.end());
  const View view = take_view(words);
  if (view == View::help) {
    std::cout << kUsage << "\nFields, as --name TYPE (value) meaning:\n"
              << help_text(unchecked_config(words).node());
  } else if (view == View::status) {
    std::cout << status_markdown();
  } else if (const auto target = take_option(words, "compile-to")) {
    compile_to(words, *target);
  } else {
    print(resolve_config(words), view);
    std::cout.flush();
    if (std::cout && uses_torch()) go_on_as_shapes_command(words);
  }
  std::cout.flush();
  if (!std::cout) throw ValueError("cannot write to the standard output");
  return 0;
}

}  // namespace titan
