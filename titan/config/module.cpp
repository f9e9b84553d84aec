#include "titan/config/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <map>

#include "titan/base/build_info.h"
#include "titan/base/elf.h"
#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/hints.h"
#include "titan/base/strings.h"
#include "titan/config/module_compile.h"
#include "titan/config/module_error.h"

namespace titan {

namespace fs = std::filesystem;

namespace {

std::string initialisation_failure(const fs::path& file, std::string_view reason) {
  // Torch's words for the place that neuron takes. Its reason may end in a backtrace, which nobody is shown.
  const bool wants_neuron =
      reason.find("PrivateUse1") != reason.npos || reason.find("privateuse") != reason.npos;
  return format(
      "{} failed while it was loaded, in the initialisation of a variable at namespace scope{}: {}",
      file.string(),
      wants_neuron ? " (neuron is opened after the modules are loaded: make its tensors in functions)" : "",
      reason);
}

/// A module whose namespace-scope initialisation throws can be caught only where the dynamic loader was built
/// with unwinding. While a module loads, this handler says what happened elsewhere, and ends the program as
/// an error of the user's.
class InitialisationGuard {
 public:
  explicit InitialisationGuard(const fs::path& file) : before_(std::set_terminate(&end_program)) {
    file_ = file;
  }
  InitialisationGuard(const InitialisationGuard&) = delete;
  InitialisationGuard& operator=(const InitialisationGuard&) = delete;
  ~InitialisationGuard() { std::set_terminate(before_); }

 private:
  [[noreturn]] static void end_program() {
    const std::string reason = std::current_exception() ? thrown_text() : "it called std::terminate";
    std::cerr << "titan: error: " << initialisation_failure(file_, reason) << std::endl;
    ::_exit(1);
  }

  static inline fs::path file_;
  std::terminate_handler before_;
};

/// Opens the library on torch for modules that use it, from where this library lies. Its handle.
void* open_torch_library(const fs::path& for_module) {
  Dl_info here{};
  check(dladdr(reinterpret_cast<void*>(&open_torch_library), &here) != 0, "this code lies in a loaded file");
  const fs::path library = fs::path(here.dli_fname).parent_path() / "libtitan.so";
  if (void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) return handle;
  throw ConfigError("{} uses torch, and {} cannot be opened: {}", for_module.string(), library.string(),
                    dlerror());
}

/// Gives torch the operators that the initialisation of a module on torch has recorded.
void register_operators(void* torch_library, const fs::path& source) {
  using Register = void (*)(const char* module);
  const auto register_recorded =
      reinterpret_cast<Register>(dlsym(torch_library, "titan_register_recorded_operators"));
  check(register_recorded != nullptr, "libtitan.so registers operators of modules");
  register_recorded(source.c_str());
}

void require_compatible(const fs::path& library) {
  const std::string stamp = read_module_stamp(library);
  if (stamp.empty()) {
    throw ConfigError(
        "{} is not a module of titan's: make one with `titan config --module NAME.cpp --compile-to NAME.so`",
        library.string());
  }
  if (is_compatible_stamp(stamp)) return;
  throw ConfigError(
      "{} was made for another build of titan (it says {}; this one is {}): make it again with this titan, "
      "`titan config "
      "--module NAME.cpp --compile-to NAME.so`",
      library.string(), stamp, module_stamp(stamp_needs_torch(stamp)));
}

/// Runs the library's initialisation.
void* open_guarded(const fs::path& library, const fs::path& source) {
  const InitialisationGuard guard(source);
  // dlopen is declared not to throw, by which the compiler would leave out the handler.
  void* (*volatile open)(const char*, int) = &dlopen;
  try {
    if (void* handle = open(library.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  } catch (...) {
    throw CommonError("{}", initialisation_failure(source, thrown_text()));
  }
  throw ConfigError("{} cannot be loaded: {}", source.string(), dlerror());
}

/// The exports of a module's library; opened once per content, never closed.
const ModuleExports& open_module(const fs::path& library, const fs::path& source) {
  static std::map<void*, ModuleExports> opened;
  require_compatible(library);
  void* torch_library = nullptr;
  if (stamp_needs_torch(read_module_stamp(library))) torch_library = open_torch_library(source);
  require_whole_library(library);
  void* handle = open_guarded(library, source);
  if (torch_library != nullptr) register_operators(torch_library, source);
  const auto [found, is_new] = opened.try_emplace(handle);
  if (!is_new) return found->second;
  auto* list = reinterpret_cast<void (*)(ModuleExports&)>(dlsym(handle, "titan_module_exports"));
  if (list == nullptr) throw ConfigError("{} has no list of functions: {}", source.string(), dlerror());
  list(found->second);
  return found->second;
}

std::vector<std::string> names_of(const std::vector<ExportedConfig>& functions) {
  std::vector<std::string> names;
  for (const ExportedConfig& function : functions) names.push_back(function.name);
  return names;
}

bool is_module_file(std::string_view name) { return name.ends_with(".cpp") || name.ends_with(".so"); }

bool is_path(std::string_view name) { return name.find('/') != name.npos || is_module_file(name); }

/// The files that a name stands for, the first first.
std::vector<fs::path> candidates(std::string_view name) {
  std::vector<fs::path> stems, files;
  if (is_path(name)) {
    stems.push_back(absolute(std::string(name)));
    files = stems;
    if (is_module_file(name)) return files;
  } else {
    std::string path(name);
    std::ranges::replace(path, '.', '/');
    for (const fs::path& folder : module_folders()) stems.push_back(folder / path);
  }
  for (const fs::path& stem : stems) {
    for (const std::string_view ending : {".cpp", ".so"})
      files.push_back(stem.string() + std::string(ending));
  }
  return files;
}

std::vector<std::string> modules_in(const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (const auto& file : fs::directory_iterator(folder, ignored)) {
      if (is_module_file(file.path().string()) && file.is_regular_file(ignored))
        names.push_back(file.path().stem().string());
    }
  }
  return names;
}

[[noreturn]] void throw_no_module(std::string_view name, std::span<const std::string> other_names) {
  const std::vector<fs::path> files = candidates(name);
  for (const fs::path& file : files) {
    std::error_code ignored;
    if (is_module_file(file.string()) && fs::exists(fs::symlink_status(file, ignored)))
      throw ConfigError("no module '{}': {} is no file", name, file.string());
  }
  if (is_path(name)) {
    const std::string endings = is_module_file(name) ? "" : ", nor with .cpp or .so at its end";
    throw ConfigError("no module '{}': there is no file {}{}{}", name, files.front().string(), endings,
                      did_you_mean(files.front().stem().string(), modules_in({files.front().parent_path()})));
  }
  std::vector<std::string> folders, names = modules_in(module_folders());
  for (const fs::path& folder : module_folders()) folders.push_back(folder.string());
  names.insert(names.end(), other_names.begin(), other_names.end());
  const std::string built_in =
      other_names.empty()
          ? ""
          : format("it is not built in ({}), and ", join({other_names.begin(), other_names.end()}, ", "));
  throw ConfigError("no module '{}': {}there is no {}.cpp or {}.so in {}{}", name, built_in, name, name,
                    join(folders, ", "), did_you_mean(name, names));
}

}  // namespace

std::vector<fs::path> module_folders() {
  std::vector<fs::path> folders = {fs::current_path()};
  for (const std::string& folder : split(env("TITAN_MODULE_PATH").value_or(""), ':')) {
    if (!folder.empty()) folders.emplace_back(absolute(folder));
  }
  return folders;
}

std::optional<fs::path> find_module(std::string_view name) {
  for (const fs::path& file : candidates(name)) {
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) return file;
  }
  return std::nullopt;
}

LoadedModule load_module(std::string_view name, std::span<const std::string> other_names) {
  const auto file = find_module(name);
  if (!file) throw_no_module(name, other_names);
  const fs::path library = file->extension() == ".so" ? *file : compiled_module(*file);
  return {std::string(name), *file, &open_module(library, *file)};
}

const ExportedConfig& find_config(const LoadedModule& module, std::string_view name) {
  for (const ExportedConfig& function : module.exports->configs) {
    if (function.name == name) return function;
  }
  if (std::ranges::find(module.exports->others, name) != module.exports->others.end()) {
    throw ConfigError("{} in {} is no config function: one takes no arguments and returns a TrainerConfig",
                      name, module.file.string());
  }
  const std::vector<std::string> names = names_of(module.exports->configs);
  if (names.empty()) {
    throw ConfigError(
        "{} has no config functions: functions at file scope, not static nor made by a macro, that return a "
        "TrainerConfig",
        module.file.string());
  }
  throw ConfigError("no config function '{}' in {}{}", name, module.file.string(),
                    did_you_mean_of(name, names, "it has"));
}

Poly<TrainerConfig> call_config(const LoadedModule& module, const ExportedConfig& function) {
  try {
    return function.make();
  } catch (const ValueError&) {
    throw;
  } catch (...) {
    throw ValueError("{} in {} failed: {}", function.name, module.file.string(), thrown_text());
  }
}

}  // namespace titan
