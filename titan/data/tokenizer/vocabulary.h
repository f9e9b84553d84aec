#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace titan {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// Ids by token, as tokenizer.json spells the tokens.
using Vocabulary = std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>>;

}  // namespace titan
