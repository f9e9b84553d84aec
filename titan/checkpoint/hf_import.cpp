#include "titan/checkpoint/hf_import.h"

#include <algorithm>
#include <cstring>
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
// Elements of the file read between two releases of its pages.
constexpr int64_t kBandElements = int64_t{1} << 22;

/// One tensor of the model and the file's tensors that fill it.
struct FileMatch {
  const ShardedTensor* target;
  const FileTensor* source;
  const FileTensor* scale = nullptr;
};

/// At most five of the names, and how many there are.
std::string first_names(const std::vector<std::string>& names) {
  const auto end = names.begin() + static_cast<ptrdiff_t>(std::min<size_t>(names.size(), 5));
  return join({names.begin(), end}, ", ") +
         (names.size() > 5 ? format(" and {} more", names.size() - 5) : "");
}

/// Whether two parts of mapped files, of one size, hold the same; a few megabytes of each at a time.
bool equal_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  constexpr size_t kStep = size_t{16} << 20;
  for (size_t begin = 0; begin < a.size(); begin += kStep) {
    const auto part_a = a.subspan(begin, std::min(kStep, a.size() - begin));
    const auto part_b = b.subspan(begin, part_a.size());
    const bool same = std::memcmp(part_a.data(), part_b.data(), part_a.size()) == 0;
    release_pages(part_a);
    release_pages(part_b);
    if (!same) return false;
  }
  return true;
}

/// Works out which tensor of the files goes where, and refuses what does not fit, before anything is written.
class ImportPlan {
 public:
  ImportPlan(const HfModel& model, const SafetensorsFolder& files, bool quantized)
      : model_(model), files_(files), quantized_(quantized) {
    for (const HfName& name : model.names) hf_names_.emplace(name.native, name.hf);
    for (const ShardedTensor& tensor : model.tensors) match(tensor);
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

  void match(const ShardedTensor& target) {
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
    if (a.dtype != b.dtype || a.shape != b.shape || !equal_bytes(a.bytes, b.bytes)) {
      throw ValueError(
          "{}: {} and {} differ, but {} ties them: it would lose one; untie them (enable_weight_tying; "
          "tie_word_embeddings in config.json)",
          files_.path().string(), a.name, b.name, model_.title);
    }
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
    const auto& target = match.target->shape;
    if (target != view.shape) {
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

/// The bytes of rows of a tensor of the file.
std::span<const std::byte> bytes_of_rows(const TensorView& view, Range rows) {
  if (view.shape.empty() || view.shape[0] == 0) return view.bytes;
  const size_t row_bytes = view.bytes.size() / static_cast<size_t>(view.shape[0]);
  return view.bytes.subspan(static_cast<size_t>(rows.begin) * row_bytes,
                            static_cast<size_t>(rows.count) * row_bytes);
}

/// Reads the target's block band by band, so that no more of the file than a band is in memory.
void fill_from_file(const FileMatch& match) {
  const TensorView& view = *match.source->view;
  const ShardedTensor& target = *match.target;
  const int64_t row_elements =
      Block::whole(view.shape).numel() / std::max<int64_t>(view.shape.empty() ? 1 : view.shape[0], 1);
  for_each_band(target.block, row_elements, kBandElements, [&](Range rows) {
    Block band = target.block;
    at::Tensor destination = target.tensor.detach();
    if (!band.shape.empty()) {
      band.offset[0] += rows.begin;
      band.shape[0] = rows.count;
      destination = destination.narrow(0, rows.begin, rows.count);
    }
    if (match.scale) {
      dequantize_into(view, *match.scale->view, band, destination);
    } else {
      copy_block_into(view, band, destination);
    }
    release_pages(bytes_of_rows(view, {band.offset.empty() ? 0 : band.offset[0], rows.count}));
  });
}

}  // namespace

ImportReport hf_import(const HfModel& model, const std::filesystem::path& path,
                       const ImportOptions& options) {
  const SafetensorsFolder files(path);
  ImportPlan plan(model, files, options.quantized);
  ImportReport report = std::move(plan.report);
  for (const FileMatch& match : plan.matches()) {
    const TensorView& view = *match.source->view;
    fill_from_file(match);
    if (match.scale) ++report.dequantized;
    ++report.tensors;
    report.bytes += match.target->block.numel() * dtype_bits(view.dtype) / 8;
  }
  return report;
}

}  // namespace titan
