#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "titan/data/tokenizer/component.h"

namespace titan {

inline constexpr std::string_view kSupportedPostProcessors = "ByteLevel, TemplateProcessing, Sequence";

/// The "post_processor" of a tokenizer.json as far as it concerns ids: special tokens before and after a
/// text.
class PostProcessor {
 public:
  PostProcessor() = default;
  /// Throws ValueError that names a component that is not supported.
  explicit PostProcessor(const Component& component);

  const std::vector<int32_t>& before() const { return before_; }
  const std::vector<int32_t>& after() const { return after_; }

 private:
  void add(const Component& component);
  void add_template(const Component& component);
  std::vector<int32_t> before_;
  std::vector<int32_t> after_;
};

}  // namespace titan
