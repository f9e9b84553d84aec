#pragma once

#include <map>
#include <optional>
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
  std::optional<std::string> dtype = {};  ///< of drawn inputs that have none of their own; float32
  std::optional<uint64_t> seed = {};      ///< of drawn inputs; 0
};

/// The inputs of a kernel: of the file, or drawn. ConfigError for a name that the kernel does not take, one
/// that is both in the file and in --shape, a shape that is none, inputs that have no shape, and a dtype or
/// seed where nothing is drawn by it.
TensorsByName run_inputs(const RunnableKernel& kernel, const RunInputs& words);

/// Takes each `--name KEY=VALUE` out of `words`. ConfigError for one without a value, or a key given twice.
std::map<std::string, std::string> take_pairs(std::vector<std::string>& words, std::string_view name);

/// What a kernel takes, a line each.
std::string describe_inputs(const RunnableKernel& kernel);

}  // namespace titan
