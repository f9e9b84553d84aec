#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "titan/checkpoint/safetensors_reader.h"
#include "titan/checkpoint/safetensors_writer.h"

namespace titan {

/// Names of the files in a folder of Hugging Face weights.
inline constexpr std::string_view kSingleFile = "model.safetensors";
inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";

/// The tensors of a folder with model.safetensors, or with shards and their index.
class SafetensorsFolder {
 public:
  struct Entry {
    const TensorView* view;
    const SafetensorsFile* file;
  };

  /// Opens every file (mapped: headers only). `path` may also be one .safetensors file. ValueError when there
  /// are no weights, a shard is missing, the index lists a tensor that its shard lacks, a tensor is in two
  /// shards, or model.safetensors and an index of other files lie side by side.
  explicit SafetensorsFolder(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  /// In the order of files and their data.
  const std::vector<Entry>& entries() const { return entries_; }
  /// nullptr when no file has such a tensor.
  const Entry* find(std::string_view name) const;

 private:
  void add_file(const std::filesystem::path& file);
  void open_indexed(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

/// Groups tensors, in order, into shards of at most `max_shard_bytes`; a larger tensor has a shard of its
/// own.
std::vector<std::vector<TensorSpec>> plan_shards(const std::vector<TensorSpec>& specs,
                                                 int64_t max_shard_bytes);

/// Writes model.safetensors, or model-00001-of-0000N.safetensors by size, and always the index (its entries
/// are the tensors written). A shard is open only from its first byte to its last.
class ShardedWriter {
 public:
  /// `folder` must exist.
  ShardedWriter(std::filesystem::path folder, const std::vector<TensorSpec>& specs, int64_t max_shard_bytes);

  /// The next bytes of the tensor; errors as SafetensorsWriter.
  void write(std::string_view name, std::span<const std::byte> piece);

  /// Writes the index. ValueError naming the tensors that were not written to their end.
  void finish();

 private:
  struct Shard {
    std::string file;
    std::vector<TensorSpec> specs;
    std::unique_ptr<SafetensorsWriter> writer;
    bool finished = false;
  };
  std::filesystem::path folder_;
  std::vector<Shard> shards_;
  std::unordered_map<std::string, size_t> shard_of_;
};

}  // namespace titan
