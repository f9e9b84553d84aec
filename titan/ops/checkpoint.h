#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace titan {

/// A piece of a model: tensors in, tensors out. Must give the same values each time it runs.
using Segment = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// Runs `segment(inputs)` keeping only the inputs; the backward runs it once more with recording on and
/// back-propagates through that. Parameters used inside get their gradients from the nested run.
/// Without gradients (NoGrad) it is a plain call. The outputs require gradients whenever recording is on.
std::vector<at::Tensor> checkpoint(std::string name, const Segment& segment,
                                   const std::vector<at::Tensor>& inputs);

/// The same for a segment of one output.
at::Tensor checkpoint(std::string name,
                      const std::function<at::Tensor(const std::vector<at::Tensor>&)>& segment,
                      const std::vector<at::Tensor>& inputs);

}  // namespace titan
