#include "apps/titan/torch_commands/kernel_inputs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <utility>

#include "titan/base/error.h"
#include "titan/base/hints.h"
#include "titan/base/number.h"

namespace titan {
namespace {

using at::Tensor;

std::vector<int64_t> parse_shape(const std::string& name, const std::string& text) {
  std::vector<int64_t> shape;
  for (const std::string& word : split(text, ',')) {
    const auto size = parse_number<int64_t>(word);
    if (!size || *size < 1)
      throw ConfigError("--shape {}={}: sizes are numbers of 1 and more, as in --shape {}=4,8", name, text,
                        name);
    shape.push_back(*size);
  }
  return shape;
}

/// float32, bfloat16 or float16; ConfigError, with the nearest, for another.
at::ScalarType parse_float_dtype(const std::string& text) {
  struct Name {
    at::ScalarType dtype;
    std::string name, short_name;
  };
  static const std::vector<Name> names = {
      {at::kFloat, "float32", "fp32"}, {at::kBFloat16, "bfloat16", "bf16"}, {at::kHalf, "float16", "fp16"}};
  std::vector<std::string> known;
  for (const Name& one : names) {
    if (text == one.name) return one.dtype;
    if (text == one.short_name) throw ConfigError("--dtype {}: did you mean {}?", text, one.name);
    known.push_back(one.name);
  }
  throw ConfigError("no --dtype '{}'{}", text, did_you_mean_of(text, known, "there are"));
}

void check_names(const RunnableKernel& kernel, const RunInputs& words) {
  std::vector<std::string> names;
  for (const RunnableInput& input : kernel.inputs) names.push_back(input.name);
  const auto require = [&](const std::string& name, std::string_view flag) {
    if (std::ranges::count(names, name) > 0) return;
    throw ConfigError("{} names {}, which {} does not take{}", flag, name, kernel.name,
                      did_you_mean_of(name, names, "it takes"));
  };
  for (const auto& [name, tensor] : words.given) require(name, "--inputs");
  for (const auto& [name, text] : words.shapes) {
    require(name, "--shape");
    const auto twice = words.given.find(name);
    if (twice == words.given.end()) continue;
    throw ConfigError("--shape {}={}: --inputs {} has {}, of {}; give one of the two", name, text, words.file,
                      name, twice->second.sizes());
  }
}

/// Normal numbers; integers below `limit`.
Tensor drawn(const std::vector<int64_t>& shape, at::ScalarType dtype, int64_t limit,
             at::Generator generator) {
  if (!c10::isIntegralType(dtype, /*includeBool=*/true)) return at::randn(shape, generator).to(dtype);
  return at::randint(0, limit, shape, std::move(generator), at::TensorOptions(dtype));
}

}  // namespace

TensorsByName run_inputs(const RunnableKernel& kernel, const RunInputs& words) {
  check_names(kernel, words);
  const auto generator = at::detail::createCPUGenerator(words.seed.value_or(0));
  const at::ScalarType float_dtype = parse_float_dtype(words.dtype.value_or("float32"));
  TensorsByName tensors;
  std::vector<std::string> without_shape;
  bool is_drawn = false, is_dtype_used = false;
  int64_t columns = 1;
  for (const RunnableInput& input : kernel.inputs) {
    const auto file = words.given.find(input.name);
    const auto text = words.shapes.find(input.name);
    if (file != words.given.end()) {
      tensors[input.name] = file->second;
    } else if (text != words.shapes.end() || !input.shape.empty()) {
      const auto shape = text == words.shapes.end() ? input.shape : parse_shape(input.name, text->second);
      const auto dtype = input.dtype.value_or(float_dtype);
      tensors[input.name] = drawn(shape, dtype, columns, generator);
      is_drawn = true;
      is_dtype_used = is_dtype_used || !input.dtype;
    } else if (!input.is_optional) {
      without_shape.push_back(input.name);
    }
    if (tensors.size() == 1 && tensors.begin()->second.dim() > 0) columns = tensors.begin()->second.size(-1);
  }
  if (!without_shape.empty()) {
    std::vector<std::string> flags;
    for (const std::string& name : without_shape) flags.push_back(format("--shape {}=N,N,...", name));
    throw ConfigError("{} takes {}: give {}, or a file with --inputs", kernel.name, join(without_shape, ", "),
                      join(flags, " "));
  }
  if (words.seed && !is_drawn)
    throw ConfigError("--seed {}: no input of {} is drawn", *words.seed, kernel.name);
  if (words.dtype && !is_dtype_used) {
    throw ConfigError("--dtype {}: no input of {} is drawn in it", *words.dtype, kernel.name);
  }
  return tensors;
}

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

std::string describe_inputs(const RunnableKernel& kernel) {
  std::string text = format("{} takes\n", kernel.name);
  for (const RunnableInput& input : kernel.inputs) {
    const std::string dtype = input.dtype ? format(" {}", c10::toString(*input.dtype)) : "";
    const std::string shape =
        input.shape.empty() ? format(" of --shape {}=... or --inputs", input.name)
                            : format(" [{}], or as --shape and --inputs say", c10::Join(", ", input.shape));
    text += format("  {}{}{}{}\n", input.name, shape, dtype, input.is_optional ? " (may be left out)" : "");
  }
  for (const std::string& value : kernel.values) text += format("  {}, of --value\n", value);
  return text;
}

}  // namespace titan
