#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "titan/data/tokenizer/component.h"

namespace titan {

inline constexpr std::string_view kSupportedDecoders =
    "ByteLevel, ByteFallback, Fuse, Replace, Strip, Sequence";

/// The "decoder" of a tokenizer.json: steps from tokens to the pieces of a text, in order. Without one,
/// tokens are joined by spaces, as in `tokenizers`.
class Decoder {
 public:
  Decoder() = default;
  /// Throws ValueError that names a component that is not supported.
  explicit Decoder(const Component& component);

  std::string operator()(std::vector<std::string> tokens) const;

 private:
  void add(const Component& component);
  std::vector<std::function<std::vector<std::string>(std::vector<std::string>)>> steps_;
  bool joins_by_space_ = true;
};

}  // namespace titan
