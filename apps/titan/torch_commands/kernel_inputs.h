#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/titan/torch_commands/kernel_library.h"

namespace titan {

/// What the command line says of a kernel's inputs.
struct RunInputs {
  std::string file;     ///< of --inputs
  TensorsByName given;  ///< in that file
  std::map<std::string, std::string> shapes;
  at::ScalarType dtype = at::kFloat;
  uint64_t seed = 0;
};

/// The inputs of a kernel: of the file, or drawn. ConfigError for a name that the kernel does not take, one
/// that is both in the file and in --shape, a shape that is none, and an input that has no shape.
TensorsByName run_inputs(const RunnableKernel& kernel, const RunInputs& words);

/// Takes each `--name KEY=VALUE` out of `words`. ConfigError for one without a value, or a key given twice.
std::map<std::string, std::string> take_pairs(std::vector<std::string>& words, std::string_view name);

/// float32, bfloat16 or float16; ConfigError, with the nearest, for another.
at::ScalarType parse_float_dtype(const std::string& text);

/// What a kernel takes, a line each.
std::string describe_inputs(const RunnableKernel& kernel);

}  // namespace titan
