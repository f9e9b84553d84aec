#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "titan/base/json.h"

namespace titan::testing {

/// A folder of its own, also the cache of data sets, gone at the end of the test.
class DataFolder {
 public:
  DataFolder() {
    char name[] = "/tmp/titan-data-test-XXXXXX";
    path_ = mkdtemp(name);
    setenv("TITAN_CACHE_DIR", (path_ / "cache").c_str(), 1);
  }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;
  ~DataFolder() {
    unsetenv("TITAN_CACHE_DIR");
    std::filesystem::remove_all(path_);
  }

  const std::filesystem::path& path() const { return path_; }

  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }
  std::string write_lines(const std::string& name, const std::vector<std::string>& texts) const {
    std::string lines;
    for (const auto& text : texts) lines += Json(Json::Object{{"text", text}}).dump() + "\n";
    return write(name, lines);
  }

 private:
  std::filesystem::path path_;
};

/// A token a byte: the simplest tokenizer that shows every boundary.
inline std::vector<int32_t> byte_tokens(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

/// `count` different documents, about `length` bytes each, of uneven lengths; no byte names two of them
/// alike.
inline std::vector<std::string> numbered_documents(int64_t count, int64_t length) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < count; ++i) {
    std::string text = "<" + std::to_string(i) + ">";
    for (int64_t j = 0; j < length / 2 + (i * 37) % length; ++j)
      text += static_cast<char>('a' + (i + j) % 26);
    texts.push_back(text);
  }
  return texts;
}

}  // namespace titan::testing
