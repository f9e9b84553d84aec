#include "titan/checkpoint/safetensors.h"

#include "titan/base/error.h"
#include "titan/checkpoint/safetensors_writer.h"
#include "titan/checkpoint/tensor_bytes.h"

namespace titan {

std::map<std::string, at::Tensor> load_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, at::Tensor> tensors;
  for (const TensorView& view : file.tensors()) {
    try {
      tensors.emplace(view.name, to_tensor(view));
    } catch (const ValueError& error) {
      throw ValueError("{}: tensor {}: {}", path.string(), view.name, error.what());
    }
  }
  return tensors;
}

void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) {
    specs.push_back({name, safetensors_dtype(tensor.scalar_type()), tensor.sizes().vec()});
  }
  SafetensorsWriter writer(path, specs);
  for (const auto& [name, tensor] : tensors) {
    for_each_block(tensor, tensor.scalar_type(),
                   [&](std::span<const std::byte> block) { writer.write(name, block); });
  }
  writer.finish();
}

}  // namespace titan
