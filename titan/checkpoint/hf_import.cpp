#include "titan/checkpoint/hf_import.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "titan/base/error.h"
#include "titan/checkpoint/block_quantized.h"
#include "titan/checkpoint/safetensors_folder.h"
#include "titan/checkpoint/tensor_bytes.h"

namespace titan {
namespace {

using FileTensor = SafetensorsFolder::Entry;

constexpr std::string_view kModelPrefix = "model.";

/// One tensor of the model and the file's tensors that fill it.
struct FileMatch {
  const NamedTensor* target;
  const FileTensor* source;
  const FileTensor* scale = nullptr;
};

/// At most five of the names, and how many there are.
std::string first_names(const std::vector<std::string>& names) {
  const auto end = names.begin() + static_cast<ptrdiff_t>(std::min<size_t>(names.size(), 5));
  return join({names.begin(), end}, ", ") +
         (names.size() > 5 ? format(" and {} more", names.size() - 5) : "");
}

/// Works out which tensor of the files goes where, and refuses what does not fit, before anything is written.
class ImportPlan {
 public:
  ImportPlan(const HfModel& model, const SafetensorsFolder& files, bool quantized)
      : model_(model), files_(files), quantized_(quantized) {
    for (const HfName& name : model.names) hf_names_.emplace(name.native, name.hf);
    for (const NamedTensor& tensor : model.tensors) match(tensor);
    refuse_missing();
    if (model.tied) check_second_copy();
    refuse_unexpected();
    for (FileMatch& match : matches_) check_fit(match);
  }

  const std::vector<FileMatch>& matches() const { return matches_; }
  ImportReport report;

 private:
  /// The file's tensor `hf`, with or without a leading "model.".
  const FileTensor* find(const std::string& hf) const {
    if (const auto* found = files_.find(hf)) return found;
    if (hf.starts_with(kModelPrefix)) {
      if (const auto* found = files_.find(std::string_view(hf).substr(kModelPrefix.size()))) return found;
    }
    return files_.find(std::string(kModelPrefix) + hf);
  }

  void match(const NamedTensor& target) {
    const auto name = hf_names_.find(target.name);
    if (name == hf_names_.end()) {
      throw ValueError("{}: the tensor {} has no Hugging Face name", model_.title, target.name);
    }
    const FileTensor* source = find(name->second);
    if (!source && model_.tied && name->second == model_.embedding_hf) {
      source = find(model_.head_hf);
      if (source)
        report.notes.push_back(format("{} is absent: {} fills both", model_.embedding_hf, model_.head_hf));
    } else if (source && model_.tied && name->second == model_.embedding_hf && !find(model_.head_hf)) {
      report.notes.push_back(format("{} is tied to {}", model_.head_hf, model_.embedding_hf));
    }
    if (!source) {
      missing_.push_back(name->second);
      return;
    }
    used_.insert(source->view);
    matches_.push_back({&target, source});
  }

  void refuse_missing() const {
    if (missing_.empty()) return;
    if (missing_ == std::vector{model_.head_hf} && find(model_.embedding_hf)) {
      throw ValueError(
          "{} has no {}, and {} does not tie its head to the embedding: a head is never left at random; tie "
          "them "
          "(enable_weight_tying; tie_word_embeddings in config.json), or use files that hold the head",
          files_.path().string(), model_.head_hf, model_.title);
    }
    throw ValueError("{} lacks {} of the {} tensors of {}: {}", files_.path().string(), missing_.size(),
                     model_.tensors.size(), model_.title, first_names(missing_));
  }

  /// A tied model has one table; files that hold two different ones belong to an untied model.
  void check_second_copy() {
    const FileTensor* embedding = find(model_.embedding_hf);
    const FileTensor* head = find(model_.head_hf);
    if (!embedding || !head) return;
    const TensorView& a = *embedding->view;
    const TensorView& b = *head->view;
    if (a.dtype != b.dtype || a.shape != b.shape || !std::ranges::equal(a.bytes, b.bytes)) {
      throw ValueError(
          "{}: {} and {} differ, but {} ties them: it would lose one; untie them (enable_weight_tying; "
          "tie_word_embeddings in config.json)",
          files_.path().string(), a.name, b.name, model_.title);
    }
    release_pages(a.bytes);
    release_pages(b.bytes);
    used_.insert(&b);
    report.ignored.push_back(b.name);
  }

  void refuse_unexpected() {
    for (const FileMatch& match : matches_) {
      if (const auto* scale = scale_of(*match.source)) used_.insert(scale->view);
    }
    std::vector<std::string> unexpected;
    for (const FileTensor& entry : files_.entries()) {
      if (used_.contains(entry.view)) continue;
      const bool needless = entry.view->name.ends_with("rotary_emb.inv_freq");
      (needless ? report.ignored : unexpected).push_back(entry.view->name);
    }
    if (unexpected.empty()) return;
    throw ValueError(
        "{} holds {} tensors that {} has no place for: {}; the files belong to another flavor or "
        "architecture (see "
        "their config.json)",
        files_.path().string(), unexpected.size(), model_.title, first_names(unexpected));
  }

  const FileTensor* scale_of(const FileTensor& source) const {
    return is_float8(source.view->dtype) ? files_.find(source.view->name + std::string(kScaleSuffix))
                                         : nullptr;
  }

  void check_fit(FileMatch& match) const {
    const TensorView& view = *match.source->view;
    const std::string place = match.source->file->path().string();
    const auto target = match.target->tensor.sizes();
    if (!std::ranges::equal(target, view.shape)) {
      throw ValueError(
          "{}: tensor {} has shape {}, {} of {} has {}: the flavor does not fit these files (compare "
          "hidden_size, "
          "head_dim, intermediate_size and vocab_size of their config.json)",
          place, view.name, shape_text(view.shape), match.target->name, model_.title, shape_text(target));
    }
    if (is_plain_float(view.dtype)) return;
    if (!is_float8(view.dtype)) {
      throw ValueError("{}: tensor {} is {}: weights must be F64, F32, F16, BF16 or block FP8", place,
                       view.name, dtype_name(view.dtype));
    }
    match.scale = scale_of(*match.source);
    if (!match.scale) {
      throw ValueError(
          "{}: tensor {} is {} and its scales {}{} are missing: without them the weights would be wrong",
          place, view.name, dtype_name(view.dtype), view.name, kScaleSuffix);
    }
    if (!quantized_) {
      throw ValueError(
          "{}: tensor {} is {}, quantised: set checkpoint.initial_load_in_hf_quantized to dequantise it",
          place, view.name, dtype_name(view.dtype));
    }
    try {
      check_block_scale(view, *match.scale->view);
    } catch (const ValueError& error) {
      throw ValueError("{}: {}", place, error.what());
    }
  }

  const HfModel& model_;
  const SafetensorsFolder& files_;
  bool quantized_;
  std::unordered_map<std::string, std::string> hf_names_;
  std::vector<FileMatch> matches_;
  std::vector<std::string> missing_;
  std::unordered_set<const TensorView*> used_;
};

}  // namespace

ImportReport hf_import(const HfModel& model, const std::filesystem::path& path,
                       const ImportOptions& options) {
  const SafetensorsFolder files(path);
  ImportPlan plan(model, files, options.quantized);
  ImportReport report = std::move(plan.report);
  for (const FileMatch& match : plan.matches()) {
    const TensorView& view = *match.source->view;
    if (match.scale) {
      dequantize_into(view, *match.scale->view, match.target->tensor);
      ++report.dequantized;
    } else {
      copy_into(view, match.target->tensor);
    }
    ++report.tensors;
    report.bytes += static_cast<int64_t>(view.bytes.size());
    release_pages(view.bytes);
  }
  return report;
}

}  // namespace titan
