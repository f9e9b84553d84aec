#include "titan/checkpoint/hf_export.h"

#include <ATen/ops/isinf.h>

#include <array>
#include <string_view>
#include <unordered_map>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"
#include "titan/checkpoint/safetensors_folder.h"
#include "titan/checkpoint/step_folders.h"
#include "titan/checkpoint/tensor_bytes.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

constexpr auto kCopiedAssets = std::to_array<std::string_view>(
    {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
     "added_tokens.json", "vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja",
     "chat_template.json"});

/// A tensor and the name it is written under.
struct Output {
  std::string hf;
  at::Tensor tensor;
};

std::vector<Output> outputs_of(const HfModel& model, bool tied_head) {
  std::unordered_map<std::string, std::string> hf_names;
  for (const HfName& name : model.names) hf_names.emplace(name.native, name.hf);
  std::vector<Output> outputs;
  at::Tensor embedding;
  for (const NamedTensor& tensor : model.tensors) {
    const auto name = hf_names.find(tensor.name);
    if (name == hf_names.end()) {
      throw ValueError("{}: the tensor {} has no Hugging Face name, so it would be lost on export",
                       model.title, tensor.name);
    }
    if (name->second == model.embedding_hf) embedding = tensor.tensor;
    outputs.push_back({name->second, tensor.tensor});
  }
  if (model.tied && tied_head && embedding.defined()) outputs.push_back({model.head_hf, embedding});
  return outputs;
}

int64_t write_weights(const std::vector<Output>& outputs, const fs::path& folder,
                      const ExportOptions& options) {
  std::vector<TensorSpec> specs;
  int64_t total = 0;
  for (const Output& output : outputs) {
    specs.push_back({output.hf, safetensors_dtype(options.dtype), output.tensor.sizes().vec()});
    total += specs.back().num_bytes();
  }
  std::error_code error;
  const auto space = fs::space(folder, error);
  if (!error && static_cast<uintmax_t>(total) > space.available) {
    throw ValueError("no room for {}: the weights take {} bytes, the disk has {} left", folder.string(),
                     with_commas(total), with_commas(static_cast<int64_t>(space.available)));
  }
  ShardedWriter writer(folder, specs, options.max_shard_bytes);
  for (const Output& output : outputs) {
    for_each_block(output.tensor, options.dtype,
                   [&](std::span<const std::byte> block) { writer.write(output.hf, block); });
  }
  writer.finish();
  return total;
}

/// float16 ends at 65504; what lies beyond becomes infinite.
void warn_about_overflow(const std::vector<Output>& outputs) {
  for (const Output& output : outputs) {
    const auto count = [](const at::Tensor& tensor) { return at::isinf(tensor).sum().item<int64_t>(); };
    const int64_t lost = count(output.tensor.detach().to(at::kHalf)) - count(output.tensor.detach());
    if (lost > 0) {
      log_warning(
          "{}: {} values are too large for float16 and were saved as infinity; use bfloat16 or float32",
          output.hf, lost);
    }
  }
}

/// The config.json that fits what is written: the source's weights may have had another dtype or been
/// quantised.
Json exported_config(const HfModel& model, const ExportOptions& options) {
  const fs::path source = options.assets / "config.json";
  const bool from_assets = !options.assets.empty() && fs::exists(source);
  const Json original = from_assets ? Json::parse_file(source) : model.config;
  if (!original.is_object()) {
    throw ValueError("{} is not a JSON object, so no config.json can be written",
                     from_assets ? source.string() : "the model's own configuration");
  }
  const std::string dtype(options.dtype == at::kHalf       ? "float16"
                          : options.dtype == at::kBFloat16 ? "bfloat16"
                                                           : "float32");
  Json config = Json::object();
  bool has_dtype = false;
  for (const auto& [key, value] : original.items()) {
    if (key == "quantization_config") continue;
    const bool is_dtype = key == "torch_dtype" || key == "dtype";
    has_dtype |= is_dtype;
    config.append_member(key, is_dtype ? Json(dtype) : value);
  }
  // Readers older than transformers 5 know only this spelling; newer ones take both.
  if (!has_dtype) config.append_member("torch_dtype", dtype);
  return config;
}

void copy_assets(const fs::path& assets, const fs::path& folder) {
  if (assets.empty()) return;
  for (const std::string_view name : kCopiedAssets) {
    if (fs::exists(assets / name)) write_file_atomic(folder / name, read_file(assets / name));
  }
}

}  // namespace

int64_t hf_export(const HfModel& model, const fs::path& path, const ExportOptions& options) {
  const fs::path folder = titan::absolute(path);
  const auto outputs = outputs_of(model, options.tied_head);
  const std::string config = exported_config(model, options).dump(2) + "\n";
  const fs::path staging = staging_folder(folder);
  std::error_code error;
  fs::remove_all(staging, error);
  fs::create_directories(staging, error);
  if (error) throw ValueError("cannot make the folder {}: {}", staging.string(), error.message());
  try {
    const int64_t bytes = write_weights(outputs, staging, options);
    write_file_atomic(staging / "config.json", config);
    copy_assets(options.assets, staging);
    publish_folder(folder);
    if (options.dtype == at::kHalf) warn_about_overflow(outputs);
    return bytes;
  } catch (...) {
    fs::remove_all(staging, error);
    throw;
  }
}

}  // namespace titan
