#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "titan/base/file.h"
#include "titan/checkpoint/safetensors_dtype.h"

namespace titan {

/// One tensor of a safetensors file: row-major little-endian elements, possibly not aligned to their size.
struct TensorView {
  std::string name;
  SafetensorsDtype dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

/// "[2, 3]".
std::string shape_text(std::span<const int64_t> shape);

/// What the header of a safetensors file says.
struct SafetensorsHeader {
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads the header of a whole file's bytes; the views point into `file`. ValueError naming `path`, the
/// tensor, and the expected and actual size where the header does not describe exactly these bytes: cut or
/// padded file, offsets that overlap, leave gaps or disagree with shape and dtype, unknown dtype, repeated
/// name.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::filesystem::path& path);

/// A safetensors file mapped into memory: opening reads the header only.
class SafetensorsFile {
 public:
  /// Errors as MappedFile and parse_safetensors.
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// In the order of their data.
  const std::vector<TensorView>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// nullptr when the file has no such tensor.
  const TensorView* find(std::string_view name) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::unordered_map<std::string_view, const TensorView*> by_name_;
};

/// Lets the system take back the pages behind `bytes` of a mapped file, which would otherwise count as this
/// process's memory; reading them again fetches them again.
void release_pages(std::span<const std::byte> bytes);

}  // namespace titan
