#include "titan/checkpoint/safetensors_folder.h"

#include <set>

#include "titan/base/error.h"
#include "titan/base/json.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

/// At most three of the names, and how many there are.
std::string some_of(const std::set<std::string>& names) {
  std::vector<std::string> shown;
  for (const auto& name : names) {
    if (shown.size() < 3) shown.push_back(name);
  }
  return join(shown, ", ") + (names.size() > 3 ? format(" and {} more", names.size() - 3) : "");
}

[[noreturn]] void fail_without_weights(const fs::path& folder) {
  if (!fs::exists(folder))
    throw ValueError("{} does not exist: expected a folder with {}", folder.string(), kSingleFile);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".bin" && entry.path().extension() != ".pth") continue;
    throw ValueError("{} holds pickled weights ({}), which are not read: convert them to safetensors",
                     folder.string(), entry.path().filename().string());
  }
  throw ValueError("{} holds neither {} nor {}", folder.string(), kSingleFile, kIndexFile);
}

/// The index's map from tensor to file name.
std::unordered_map<std::string, std::string> read_weight_map(const fs::path& index) {
  std::unordered_map<std::string, std::string> map;
  const Json json = Json::parse_file(index);
  try {
    for (const auto& [name, file] : json["weight_map"].items()) {
      const std::string& text = file.as_string();
      if (text.empty() || text != fs::path(text).filename().string() || text == "..") {
        throw ValueError("the file '{}' of {} must be a name in the same folder", text, name);
      }
      map.emplace(name, text);
    }
  } catch (const ValueError& error) {
    throw ValueError("{}: weight_map: {}", index.string(), error.what());
  }
  if (map.empty()) throw ValueError("{}: weight_map is empty", index.string());
  return map;
}

std::string shard_name(size_t index, size_t count) {
  const auto padded = [](size_t number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  if (count == 1) return std::string(kSingleFile);
  return format("model-{}-of-{}.safetensors", padded(index + 1), padded(count));
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const fs::path& path) : path_(path) {
  if (fs::is_regular_file(path)) {
    add_file(path);
  } else if (fs::exists(path / kIndexFile)) {
    open_indexed(path / kIndexFile);
  } else if (fs::exists(path / kSingleFile)) {
    add_file(path / kSingleFile);
  } else {
    fail_without_weights(path);
  }
}

void SafetensorsFolder::add_file(const fs::path& path) {
  const auto& file = files_.emplace_back(std::make_unique<SafetensorsFile>(path));
  for (const TensorView& view : file->tensors()) {
    const auto [place, added] = by_name_.emplace(view.name, entries_.size());
    if (!added) {
      throw ValueError("tensor {} is in two files: {} and {}; remove the one that does not belong here",
                       view.name, entries_[place->second].file->path().string(), path.string());
    }
    entries_.push_back({&view, file.get()});
  }
}

void SafetensorsFolder::open_indexed(const fs::path& index) {
  const auto weight_map = read_weight_map(index);
  std::set<std::string> shards;
  std::set<std::string> absent;
  for (const auto& [name, file] : weight_map) {
    shards.insert(file);
    if (!fs::exists(path_ / file)) absent.insert(file);
  }
  if (!shards.contains(std::string(kSingleFile)) && fs::exists(path_ / kSingleFile)) {
    throw ValueError("{} holds both {} and {}, which lists other files: remove the one that is out of date",
                     path_.string(), kSingleFile, kIndexFile);
  }
  if (!absent.empty()) {
    throw ValueError("{}: {} of the {} files that {} lists are missing: {}", path_.string(), absent.size(),
                     shards.size(), kIndexFile, some_of(absent));
  }
  for (const auto& shard : shards) add_file(path_ / shard);
  std::set<std::string> lacking;
  for (const auto& [name, file] : weight_map) {
    const Entry* entry = find(name);
    if (!entry) {
      lacking.insert(name + " in " + file);
    } else if (entry->file->path().filename() != file) {
      throw ValueError("{} lists tensor {} in {}, but it is in {}", index.string(), name, file,
                       entry->file->path().filename().string());
    }
  }
  if (!lacking.empty()) {
    throw ValueError("{} lists {} tensors that the files lack: {}", index.string(), lacking.size(),
                     some_of(lacking));
  }
}

const SafetensorsFolder::Entry* SafetensorsFolder::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::vector<std::vector<TensorSpec>> plan_shards(const std::vector<TensorSpec>& specs,
                                                 int64_t max_shard_bytes) {
  std::vector<std::vector<TensorSpec>> shards(1);
  int64_t filled = 0;
  for (const TensorSpec& spec : specs) {
    if (!shards.back().empty() && filled + spec.num_bytes() > max_shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(spec);
    filled += spec.num_bytes();
  }
  return shards;
}

ShardedWriter::ShardedWriter(fs::path folder, const std::vector<TensorSpec>& specs, int64_t max_shard_bytes)
    : folder_(std::move(folder)) {
  auto plan = plan_shards(specs, max_shard_bytes);
  for (size_t i = 0; i < plan.size(); ++i) {
    for (const TensorSpec& spec : plan[i]) {
      const bool added = shard_of_.emplace(spec.name, i).second;
      check(added, "tensors of a checkpoint have different names");
    }
    shards_.push_back({shard_name(i, plan.size()), std::move(plan[i]), nullptr, false});
  }
}

void ShardedWriter::write(std::string_view name, std::span<const std::byte> piece) {
  const auto found = shard_of_.find(std::string(name));
  check(found != shard_of_.end(), "only tensors of the specs are written");
  Shard& shard = shards_[found->second];
  // A tensor without elements may come after its shard is complete.
  if (shard.finished && piece.empty()) return;
  check(!shard.finished, "no tensor is longer than its spec");
  if (!shard.writer) shard.writer = std::make_unique<SafetensorsWriter>(folder_ / shard.file, shard.specs);
  shard.writer->write(name, piece);
  if (!shard.writer->complete()) return;
  shard.writer->finish();
  shard.writer.reset();
  shard.finished = true;
}

void ShardedWriter::finish() {
  int64_t total_size = 0;
  std::map<std::string, std::string> weight_map;
  for (Shard& shard : shards_) {
    if (!shard.finished) {
      if (!shard.writer)
        shard.writer = std::make_unique<SafetensorsWriter>(folder_ / shard.file, shard.specs);
      shard.writer->finish();
      shard.finished = true;
    }
    for (const TensorSpec& spec : shard.specs) {
      weight_map.emplace(spec.name, shard.file);
      total_size += spec.num_bytes();
    }
  }
  Json index = Json::object();
  index.set("metadata", Json::object()).set("total_size", total_size);
  Json map = Json::object();
  for (const auto& [name, file] : weight_map) map.append_member(name, file);
  index.set("weight_map", std::move(map));
  write_file_atomic(folder_ / kIndexFile, index.dump(2) + "\n");
}

}  // namespace titan
