#include "titan/checkpoint/hf_export.h"

#include <ATen/ops/isinf.h>

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

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

// Bytes of weights between two points where the ranks agree on whether the export still stands.
constexpr int64_t kBytesToAgree = int64_t{256} << 20;

/// A tensor and the name it is written under.
struct Output {
  std::string hf;
  const ShardedTensor* tensor;
};

std::vector<Output> outputs_of(const HfModel& model, bool tied_head) {
  std::unordered_map<std::string, std::string> hf_names;
  for (const HfName& name : model.names) hf_names.emplace(name.native, name.hf);
  std::vector<Output> outputs;
  const ShardedTensor* embedding = nullptr;
  for (const ShardedTensor& tensor : model.tensors) {
    const auto name = hf_names.find(tensor.name);
    if (name == hf_names.end()) {
      throw ValueError("{}: the tensor {} has no Hugging Face name, so it would be lost on export",
                       model.title, tensor.name);
    }
    if (name->second == model.embedding_hf) embedding = &tensor;
    outputs.push_back({name->second, &tensor});
  }
  if (model.tied && tied_head && embedding) outputs.push_back({model.head_hf, embedding});
  return outputs;
}

int64_t bytes_of_outputs(const std::vector<Output>& outputs, at::ScalarType dtype) {
  int64_t total = 0;
  for (const Output& output : outputs) total += output.tensor->whole_bytes(dtype);
  return total;
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

/// float16 ends at 65504; what lies beyond becomes infinite.
int64_t count_overflow(const at::Tensor& tensor) {
  int64_t lost = 0;
  for (const at::Tensor& piece : tensor.reshape({-1}).split(int64_t{1} << 20)) {
    lost += at::isinf(piece.to(at::kHalf)).sum().item<int64_t>() - at::isinf(piece).sum().item<int64_t>();
  }
  return lost;
}

/// A folder that is being written beside its place; what is not published is removed.
class StagedExport {
 public:
  StagedExport(fs::path folder, const ExportOptions& options)
      : folder_(std::move(folder)), staging_(staging_folder(folder_)), options_(options) {}
  StagedExport(const StagedExport&) = delete;
  StagedExport& operator=(const StagedExport&) = delete;
  ~StagedExport() {
    writer_.reset();
    std::error_code ignored;
    if (state_ == State::begun) fs::remove_all(staging_, ignored);
  }

  void begin(const HfModel& model, const std::vector<Output>& outputs) {
    config_ = exported_config(model, options_).dump(2) + "\n";
    state_ = State::begun;
    std::error_code error;
    fs::remove_all(staging_, error);
    fs::create_directories(staging_, error);
    if (error) throw ValueError("cannot make the folder {}: {}", staging_.string(), error.message());
    require_room(bytes_of_outputs(outputs, options_.dtype));
    std::vector<TensorSpec> specs;
    for (const Output& output : outputs) {
      specs.push_back({output.hf, safetensors_dtype(options_.dtype), output.tensor->shape});
    }
    writer_.emplace(staging_, specs, options_.max_shard_bytes);
  }

  void write(const std::string& hf, const at::Tensor& whole) {
    for_each_block(whole, options_.dtype,
                   [&](std::span<const std::byte> block) { writer_->write(hf, block); });
    if (options_.dtype != at::kHalf) return;
    if (const int64_t lost = count_overflow(whole); lost > 0) overflows_.emplace_back(hf, lost);
  }

  void publish() {
    writer_->finish();
    write_file_atomic(staging_ / "config.json", config_);
    copy_assets(options_.assets, staging_);
    publish_folder(folder_);
    state_ = State::published;
    for (const auto& [hf, lost] : overflows_) {
      log_warning(
          "{}: {} values are too large for float16 and were saved as infinity; use bfloat16 or float32", hf,
          lost);
    }
  }

 private:
  enum class State { idle, begun, published };

  void require_room(int64_t bytes) const {
    std::error_code error;
    const auto space = fs::space(staging_, error);
    if (error || static_cast<uintmax_t>(bytes) <= space.available) return;
    throw ValueError("no room for {}: the weights take {} bytes, the disk has {} left", folder_.string(),
                     with_commas(bytes), with_commas(static_cast<int64_t>(space.available)));
  }

  fs::path folder_, staging_;
  const ExportOptions& options_;
  std::string config_;
  std::optional<ShardedWriter> writer_;
  std::vector<std::pair<std::string, int64_t>> overflows_;
  State state_ = State::idle;
};

}  // namespace

// [Note: an export of several ranks]
// The ranks of the first replica send their parts of one tensor after the other; the writing rank puts each
// together and writes it. Its failure must not leave the others in a gather: it goes on gathering, without
// writing, up to the next point where all ranks agree on whether the export still stands. Those points come
// every kBytesToAgree, so that little is sent in vain, and at the end, where they keep the other ranks from
// leaving before the folder is there.
int64_t hf_export(const HfModel& model, const fs::path& path, const ExportOptions& options,
                  const ShardGroups& groups) {
  const auto outputs = outputs_of(model, options.tied_head);
  StagedExport staged(titan::absolute(path), options);
  SharedAttempt attempt(groups);
  const auto on_writer = [&](const std::function<void()>& work) {
    if (groups.writes()) attempt.run(work);
  };
  on_writer([&] { staged.begin(model, outputs); });
  attempt.agree();
  int64_t sent = 0;
  for (const Output& output : outputs) {
    if (groups.saves()) {
      const at::Tensor whole = gather_whole(*output.tensor, groups);
      on_writer([&] { staged.write(output.hf, whole); });
    }
    sent += output.tensor->whole_bytes(options.dtype);
    if (sent < kBytesToAgree) continue;
    sent = 0;
    attempt.agree();
  }
  on_writer([&] { staged.publish(); });
  attempt.agree();
  return bytes_of_outputs(outputs, options.dtype);
}

}  // namespace titan
