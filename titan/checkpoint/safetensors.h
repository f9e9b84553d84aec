#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace titan {

/// A tensor under a name.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// All tensors of a file, copied, in their own dtype. ValueError when the file is damaged or holds a dtype
/// that torch has not (F4, F6).
std::map<std::string, at::Tensor> load_safetensors(const std::filesystem::path& path);

/// Writes a file from tensors of any device and layout; it appears whole, by a rename.
void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

}  // namespace titan
