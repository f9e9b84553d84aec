#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "titan/data/tokenizer/component.h"

namespace titan {

inline constexpr std::string_view kSupportedNormalizers =
    "NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, Sequence";

/// The "normalizer" of a tokenizer.json: steps from text to text, in order. None leaves text as it is.
class Normalizer {
 public:
  Normalizer() = default;
  /// Throws ValueError that names a component that is not supported.
  explicit Normalizer(const Component& component);

  bool empty() const { return steps_.empty(); }
  std::string operator()(std::string_view text) const;

 private:
  void add(const Component& component);
  std::vector<std::function<std::string(std::string_view)>> steps_;
};

}  // namespace titan
