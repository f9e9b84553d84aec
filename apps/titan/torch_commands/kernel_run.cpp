#include "apps/titan/torch_commands/kernel_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "apps/titan/commands/arguments.h"
#include "apps/titan/torch_commands/kernel_library.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/sha256.h"
#include "titan/config/cli.h"
#include "titan/config/module.h"
#include "titan/nki/cost.h"
#include "titan/nki/run_observer.h"
#include "titan/ops/wrap_nki.h"

namespace titan {
namespace {

using at::Tensor;

/// Values of an option that may be given more than once, `--name key=value`.
std::map<std::string, std::string> take_pairs(std::vector<std::string>& words, std::string_view name) {
  std::map<std::string, std::string> pairs;
  const std::string flag = format("--{}", name);
  for (size_t i = 0; i < words.size();) {
    const bool has_value = words[i].starts_with(flag + "=");
    if (words[i] != flag && !has_value) {
      ++i;
      continue;
    }
    if (!has_value && i + 1 == words.size()) throw ConfigError("{} needs a value: NAME=...", flag);
    const std::string value = has_value ? words[i].substr(flag.size() + 1) : words[i + 1];
    const size_t equals = value.find('=');
    if (equals == value.npos || equals == 0) throw ConfigError("{} {}: give NAME=...", flag, value);
    if (!pairs.emplace(value.substr(0, equals), value.substr(equals + 1)).second)
      throw ConfigError("{} names {} twice", flag, value.substr(0, equals));
    const auto at = words.begin() + static_cast<ptrdiff_t>(i);
    words.erase(at, at + (has_value ? 1 : 2));
  }
  return pairs;
}

std::vector<int64_t> parse_shape(const std::string& name, const std::string& text) {
  std::vector<int64_t> shape;
  for (const std::string& word : split(text, ',')) {
    const auto size = parse_number<int64_t>(word);
    if (!size || *size < 1)
      throw ConfigError("--shape {}={}: sizes are numbers, as in q=1,8,256,128", name, text);
    shape.push_back(*size);
  }
  return shape;
}

at::ScalarType parse_float_dtype(const std::string& text) {
  if (text == "float32") return at::kFloat;
  if (text == "bfloat16") return at::kBFloat16;
  if (text == "float16") return at::kHalf;
  throw ConfigError("--dtype must be float32, bfloat16 or float16, got {}", text);
}

/// The words that say which inputs.
struct RunInputs {
  TensorsByName given;  ///< of a file
  std::map<std::string, std::string> shapes;
  at::ScalarType dtype = at::kFloat;
  uint64_t seed = 0;
};

void check_names(const RunnableKernel& kernel, const RunInputs& words) {
  std::vector<std::string> names;
  for (const RunnableInput& input : kernel.inputs) names.push_back(input.name);
  const auto require = [&](const std::string& name, std::string_view flag) {
    if (std::ranges::count(names, name) > 0) return;
    throw ConfigError("{} names {}, which {} does not take{}; it takes {}", flag, name, kernel.name,
                      did_you_mean(name, names), join(names, ", "));
  };
  for (const auto& [name, tensor] : words.given) require(name, "--inputs");
  for (const auto& [name, text] : words.shapes) require(name, "--shape");
}

/// Normal numbers; integers below `limit`.
Tensor drawn(const std::vector<int64_t>& shape, at::ScalarType dtype, int64_t limit,
             at::Generator generator) {
  if (!c10::isIntegralType(dtype, /*includeBool=*/true)) return at::randn(shape, generator).to(dtype);
  return at::randint(0, limit, shape, std::move(generator), at::TensorOptions(dtype));
}

TensorsByName run_inputs(const RunnableKernel& kernel, const RunInputs& words) {
  check_names(kernel, words);
  const auto generator = at::detail::createCPUGenerator(words.seed);
  TensorsByName tensors;
  int64_t columns = 1;
  for (const RunnableInput& input : kernel.inputs) {
    const auto file = words.given.find(input.name);
    const auto text = words.shapes.find(input.name);
    if (file != words.given.end()) {
      tensors[input.name] = file->second;
    } else if (text != words.shapes.end() || !input.shape.empty()) {
      const auto shape = text == words.shapes.end() ? input.shape : parse_shape(input.name, text->second);
      tensors[input.name] = drawn(shape, input.dtype.value_or(words.dtype), columns, generator);
    } else if (!input.is_optional) {
      throw ConfigError("{} takes {}: give --shape {}=..., or a file with --inputs", kernel.name, input.name,
                        input.name);
    }
    if (tensors.size() == 1 && tensors.begin()->second.dim() > 0) columns = tensors.begin()->second.size(-1);
  }
  return tensors;
}

std::string checksum(const Tensor& tensor) {
  const Tensor whole = tensor.to(at::kCPU).contiguous();
  return sha256({static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()}).substr(0, 16);
}

void print_outputs(const std::vector<NamedTensor>& outputs) {
  for (const auto& [name, tensor] : outputs) {
    const double sum = tensor.to(at::kDouble).sum().item<double>();
    std::printf("%s %s %s, sum %.9g, sha256 %s\n", name.c_str(), c10::str(tensor.sizes()).c_str(),
                c10::toString(tensor.scalar_type()), sum, checksum(tensor).c_str());
  }
}

/// The file of the i-th kernel that an operator runs: out.json, out.1.json, ...
std::filesystem::path trace_file(const std::filesystem::path& file, int64_t index) {
  if (index == 0) return file;
  return std::filesystem::path(file).replace_extension(format(".{}{}", index, file.extension().string()));
}

std::vector<NamedTensor> traced(const std::function<std::vector<NamedTensor>()>& call,
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

std::string kernel_names() {
  std::vector<std::string> names;
  for (const RunnableKernel& kernel : library_kernels()) names.push_back(kernel.name);
  return join(names, ", ");
}

RunnableKernel find_kernel(const std::string& name, const std::map<std::string, std::string>& values) {
  if (name.find("::") != name.npos) return operator_kernel(name, values);
  std::vector<std::string> names;
  for (const RunnableKernel& kernel : library_kernels()) {
    if (kernel.name == name) {
      if (!values.empty()) throw ConfigError("--value is for operators of modules; {} takes none", name);
      return kernel;
    }
    names.push_back(kernel.name);
  }
  throw ConfigError("no kernel '{}' in nkilib{}; it has {}; an operator of a module is ns::name", name,
                    did_you_mean(name, names), join(names, ", "));
}

Arguments parse_run_words(KernelVerb verb, std::span<const std::string> words) {
  std::vector<Arguments::Option> options = {
      {"inputs", "FILE", "safetensors with inputs; those it has not are drawn"},
      {"shape", "NAME=N,N,...", "Shape of a drawn input; once an input"},
      {"value", "NAME=VALUE", "An argument of an operator that is no tensor"},
      {"dtype", "NAME", "Of drawn inputs: float32 (default), bfloat16, float16"},
      {"seed", "N", "Of drawn inputs"},
      {"lnc", "N", "Physical cores of a logical one, 1 or 2 (default: NEURON_LOGICAL_NC_CONFIG, else 2)"},
      {"imports", "M,...", "Modules with operators: M.cpp or M.so here or in TITAN_MODULE_PATH"},
      {"outputs", "FILE", "safetensors that gets the results"}};
  if (verb == KernelVerb::trace)
    options.push_back({"trace", "FILE", "JSON that gets the timeline; open it in Perfetto"});
  const std::string name = verb == KernelVerb::trace ? "trace" : "run";
  return {format("kernel {} KERNEL", name), std::move(options), words};
}

}  // namespace

int run_kernel_command(std::vector<std::string> words, KernelVerb verb) {
  const auto shapes = take_pairs(words, "shape"), values = take_pairs(words, "value");
  const bool is_named = !words.empty() && !words.front().starts_with("-");
  const std::string name = is_named ? words.front() : "";
  if (is_named) words.erase(words.begin());
  const Arguments arguments = parse_run_words(verb, words);
  if (arguments.help_shown()) {
    std::cout << "\nKernels of nkilib: " << kernel_names() << ".\n"
              << "Operators of the modules that --imports names: ns::name.\n";
    return 0;
  }
  if (name.empty())
    throw ConfigError("titan kernel run: name a kernel first: {}, or ns::name", kernel_names());

  const int64_t lnc = arguments.integer("lnc", get_logical_neuron_cores() == "1" ? 1 : 2, 1);
  if (lnc > 2) throw ConfigError("--lnc must be 1 or 2, got {}", lnc);
  // Modules ask for it when they are loaded.
  setenv("NEURON_LOGICAL_NC_CONFIG", format("{}", lnc).c_str(), /*overwrite=*/1);
  for (const std::string& module : split(arguments.text("imports").value_or(""), ',')) {
    if (!module.empty()) load_module(module, {});
  }
  const RunnableKernel kernel = find_kernel(name, values);
  RunInputs chosen{.shapes = shapes,
                   .dtype = parse_float_dtype(arguments.text("dtype").value_or("float32")),
                   .seed = static_cast<uint64_t>(arguments.integer("seed", 0, 0))};
  if (const auto file = arguments.text("inputs")) chosen.given = load_safetensors(*file);
  const TensorsByName inputs = run_inputs(kernel, chosen);
  const auto call = [&] { return kernel.call(inputs, lnc); };
  const auto outputs = verb == KernelVerb::trace ? traced(call, arguments.required("trace")) : call();
  print_outputs(outputs);
  if (const auto file = arguments.text("outputs")) save_safetensors(*file, outputs);
  return 0;
}

}  // namespace titan
