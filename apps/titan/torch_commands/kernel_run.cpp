#include "apps/titan/torch_commands/kernel_run.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <set>

#include "apps/titan/commands/arguments.h"
#include "apps/titan/torch_commands/kernel_inputs.h"
#include "apps/titan/torch_commands/kernel_library.h"
#include "apps/titan/torch_commands/kernel_results.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"
#include "titan/checkpoint/safetensors.h"
#include "titan/config/cli.h"
#include "titan/config/module.h"
#include "titan/nki/cost.h"
#include "titan/nki/run_observer.h"
#include "titan/ops/recorded_operators.h"
#include "titan/ops/wrap_nki.h"
#include "titan/train/filled_empty.h"

namespace titan {
namespace {

/// The file of the i-th kernel that an operator runs: out.json, out.1.json, ...
std::filesystem::path trace_file(const std::filesystem::path& file, int64_t index) {
  if (index == 0) return file;
  return std::filesystem::path(file).replace_extension(format(".{}{}", index, file.extension().string()));
}

std::vector<KernelResult> traced(const std::function<std::vector<KernelResult>()>& call,
                                 const std::string& file) {
  int64_t count = 0;
  const nki::RunObserver observer([&](const nki::KernelRun& run) {
    const nki::Prediction prediction = nki::predict(run);
    const auto target = trace_file(file, count++);
    write_file_atomic(target.string(), nki::chrome_trace(run, prediction));
    std::cout << nki::engine_table(run, prediction) << "timeline: " << target.string() << "\n";
  });
  auto outputs = call();
  if (count == 0) throw ValueError("no kernel ran: there is nothing to trace");
  return outputs;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const RunnableKernel& kernel : library_kernels()) names.push_back(kernel.name);
  return names;
}

/// Loads the modules of `--imports`; the operators that they have brought.
std::vector<std::string> load_operators(const std::string& modules) {
  const std::set<std::string> before = operator_names();
  for (const std::string& module : split(modules, ',')) {
    if (!module.empty()) load_module(module, {});
  }
  std::vector<std::string> brought;
  std::ranges::set_difference(operator_names(), before, std::back_inserter(brought));
  return brought;
}

RunnableKernel find_kernel(const std::string& name, const std::map<std::string, std::string>& values,
                           const std::vector<std::string>& operators) {
  if (name.find("::") != name.npos) return operator_kernel(name, values, operators);
  for (const RunnableKernel& kernel : library_kernels()) {
    if (kernel.name != name) continue;
    if (!values.empty()) throw ConfigError("--value is for operators of modules; {} takes none", name);
    return kernel;
  }
  std::vector<std::string> names = kernel_names();
  const size_t num_kernels = names.size();
  names.insert(names.end(), operators.begin(), operators.end());
  const std::string hint = did_you_mean(name, names);
  names.resize(num_kernels);
  throw ConfigError("no kernel '{}'{} Of nkilib there are {}; of modules, {}", name,
                    hint.empty() ? "." : hint, join(names, ", "),
                    operators.empty() ? "those that --imports loads, as ns::name" : join(operators, ", "));
}

Arguments parse_run_words(KernelVerb verb, std::span<const std::string> words) {
  std::vector<Arguments::Option> options = {
      {"inputs", "FILE", "safetensors with inputs; those it has not are drawn"},
      {"shape", "NAME=N,N,...", "Shape of a drawn input; once an input"},
      {"value", "NAME=VALUE", "An argument of an operator that is no tensor"},
      {"dtype", "NAME", "Of drawn inputs: float32 (default), bfloat16, float16"},
      {"seed", "N", "Of drawn inputs"},
      {"lnc", "N", "Physical cores of a logical one, 1 or 2 (default: NEURON_LOGICAL_NC_CONFIG, else 2)"},
      {"imports", "M,...",
       "Modules with operators: M.cpp or M.so here or in TITAN_MODULE_PATH; also --override.imports"},
      {"outputs", "FILE", "safetensors that gets the results"}};
  if (verb == KernelVerb::trace)
    options.push_back({"trace", "FILE", "JSON that gets the timeline; open it in Perfetto"});
  const std::string name = verb == KernelVerb::trace ? "trace" : "run";
  return {format("kernel {} KERNEL", name), std::move(options), words};
}

/// --lnc, or what the environment says.
int64_t chosen_lnc(const Arguments& arguments) {
  if (!arguments.has("lnc")) {
    const std::string cores = get_logical_neuron_cores();
    register_recorded_operators("titan kernel");  // reports a variable that says neither 1 nor 2
    return cores == "1" ? 1 : 2;
  }
  const int64_t lnc = arguments.integer("lnc", 2, 1);
  if (lnc > 2) throw ConfigError("--lnc must be 1 or 2, got {}", lnc);
  return lnc;
}

void save_results(const std::string& file, const std::vector<KernelResult>& results) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor, text] : results) {
    if (tensor.defined())
      tensors.push_back({name, tensor});
    else
      log_warning("--outputs {}: {} is no tensor and no number, and is left out: {}", file, name, text);
  }
  save_safetensors(file, tensors);
}

/// `run KERNEL --help`: the inputs of that one.
void print_inputs(const std::string& name, std::vector<std::string> words) {
  const std::string modules = take_option(words, "imports").value_or("");
  std::cout << describe_inputs(find_kernel(name, {}, load_operators(modules))) << "\n";
}

}  // namespace

void rename_flag(std::vector<std::string>& words, const std::string& from, const std::string& to) {
  const std::string old_flag = "--" + from, new_flag = "--" + to;
  const auto is_flag = [](const std::string& word, const std::string& flag) {
    return word == flag || word.starts_with(flag + "=");
  };
  const bool has_new = std::ranges::any_of(words, [&](const auto& word) { return is_flag(word, new_flag); });
  for (std::string& word : words) {
    if (!is_flag(word, old_flag)) continue;
    if (has_new) throw ConfigError("{} and {} are the same here: give one", new_flag, old_flag);
    word = new_flag + word.substr(old_flag.size());
  }
}

int run_kernel_command(std::vector<std::string> words, KernelVerb verb) {
  rename_flag(words, "override.imports", "imports");
  const auto shapes = take_pairs(words, "shape"), values = take_pairs(words, "value");
  const bool is_named = !words.empty() && !words.front().starts_with("-");
  const std::string name = is_named ? words.front() : "";
  if (is_named) words.erase(words.begin());
  const bool wants_help = std::ranges::count(words, "--help") + std::ranges::count(words, "-h") > 0;
  if (wants_help && is_named) print_inputs(name, words);
  const std::vector<std::string> help = {"--help"};
  const Arguments arguments = parse_run_words(verb, wants_help ? help : words);
  if (arguments.help_shown()) {
    std::cout << "\nKernels of nkilib: " << join(kernel_names(), ", ") << ".\n"
              << "Operators of the modules that --imports names: ns::name.\n"
              << "`titan kernel run KERNEL --help` shows its inputs.\n";
    return 0;
  }
  if (name.empty()) {
    throw ConfigError("titan kernel {}: name a kernel first: {}, or ns::name",
                      verb == KernelVerb::trace ? "trace" : "run", join(kernel_names(), ", "));
  }

  const int64_t lnc = chosen_lnc(arguments);
  // Modules ask for it when they are loaded.
  setenv("NEURON_LOGICAL_NC_CONFIG", format("{}", lnc).c_str(), /*overwrite=*/1);
  const auto operators = load_operators(arguments.text("imports").value_or(""));
  const RunnableKernel kernel = find_kernel(name, values, operators);
  RunInputs chosen{
      .file = arguments.text("inputs").value_or(""), .shapes = shapes, .dtype = arguments.text("dtype")};
  if (arguments.has("seed")) chosen.seed = static_cast<uint64_t>(arguments.integer("seed", 0, 0));
  if (arguments.has("inputs")) chosen.given = load_safetensors(chosen.file);
  const TensorsByName inputs = run_inputs(kernel, chosen);
  const auto call = [&] {
    const FilledEmpty filled;
    return kernel.call(inputs, lnc);
  };
  const auto results = verb == KernelVerb::trace ? traced(call, arguments.required("trace")) : call();
  print_results(results);
  if (results.empty()) std::cout << kernel.name << " returns nothing\n";
  if (const auto file = arguments.text("outputs")) save_results(*file, results);
  return 0;
}

}  // namespace titan
