#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "titan/checkpoint/safetensors_dtype.h"

namespace titan {

/// A tensor to be written.
struct TensorSpec {
  std::string name;
  SafetensorsDtype dtype;
  std::vector<int64_t> shape;

  /// Size of the data in bytes.
  int64_t num_bytes() const;
};

/// Writes one safetensors file piece by piece: the header comes from the specs, so no tensor need be kept.
/// The file has a temporary name until finish(); what is not finished is removed. Errors are ValueError
/// naming the path and the system's reason.
class SafetensorsWriter {
 public:
  /// Reserves the whole file at once, so that a full disk is found before work is done. `metadata` always
  /// gets format = pt, without which transformers refuses a file.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& specs,
                    std::map<std::string, std::string> metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  /// The next bytes of the tensor. Tensors may come in any order, each in as many pieces as wanted.
  void write(std::string_view name, std::span<const std::byte> piece);

  /// Whether every tensor is written to its end.
  bool complete() const { return missing_bytes_ == 0; }

  /// Syncs and gives the file its name. ValueError naming a tensor that was not written to its end.
  void finish();

 private:
  struct Place {
    int64_t next;
    int64_t end;
  };
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  int64_t missing_bytes_ = 0;
  std::unordered_map<std::string, Place> places_;
};

}  // namespace titan
