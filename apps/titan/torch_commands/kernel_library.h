#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// A tensor that a runnable kernel takes. Drawn integers count columns of the first input.
struct RunnableInput {
  std::string name;
  std::vector<int64_t> shape = {};           ///< when --shape does not say; none: it has to
  std::optional<at::ScalarType> dtype = {};  ///< when it is not --dtype
  bool is_optional = false;                  ///< left out unless given
};

/// What a kernel or an operator returns, or writes.
struct KernelResult {
  std::string name;
  at::Tensor tensor;      ///< a number as a tensor without dimensions; undefined for what is neither
  std::string text = {};  ///< of what is no tensor: "7", "true", "none"
};

using TensorsByName = std::map<std::string, at::Tensor>;

/// A kernel that `titan kernel run` can call.
struct RunnableKernel {
  std::string name;
  std::vector<RunnableInput> inputs;
  std::function<std::vector<KernelResult>(const TensorsByName& inputs, int64_t lnc)> call;
  std::vector<std::string> values = {};  ///< arguments that are no tensors: "float eps"
};

/// Those of titan/nkilib.
const std::vector<RunnableKernel>& library_kernels();

/// The operators in torch's dispatcher, `ns::name`.
std::set<std::string> operator_names();

/// The operator `ns::name` in torch's dispatcher, that a module has registered; `values` are its arguments
/// that are no tensors, by name. ConfigError when there is none, with the nearest of `known`, those of the
/// modules that were loaded, or for a value that is missing or wrong.
RunnableKernel operator_kernel(const std::string& name, const std::map<std::string, std::string>& values,
                               const std::vector<std::string>& known);

}  // namespace titan
