#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "titan/data/tokenizer/component.h"
#include "titan/data/tokenizer/normalizer.h"
#include "titan/data/tokenizer/vocabulary.h"

namespace titan {

/// An entry of "added_tokens" in a tokenizer.json.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  /// What is searched for, and what decoding gives: `content`, normalized if `normalized`.
  std::string pattern = {};
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
  bool special = false;
};

/// Finds added tokens in text: at each place the longest, from left to right.
class TokenFinder {
 public:
  void add(const AddedToken& token);
  /// Calls `gap` with each stretch between tokens and `found` with the id of each token, in order.
  void split(std::string_view text, const std::function<void(std::string_view)>& gap,
             const std::function<void(int32_t)>& found) const;

 private:
  struct Node {
    std::unordered_map<unsigned char, size_t> next;
    int32_t token = -1;  // index into tokens_
  };
  struct Match {
    size_t end;
    int32_t token;
  };
  Match longest_at(std::string_view text, size_t begin) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  bool starts_[256] = {};
};

/// The "added_tokens" of a tokenizer.json: cut out of the text before and after normalization.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// A token keeps the id that `vocabulary` has for it; others are counted on from the end, as `tokenizers`
  /// does, with a warning where the file says otherwise. Throws ValueError for a wrong entry.
  AddedTokens(const std::vector<Component>& entries, const Vocabulary& vocabulary,
              const Normalizer& normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// Whether a token with this text is special, as decoding sees it.
  bool is_special(std::string_view text) const { return special_.contains(text); }
  /// Finds tokens that are matched as they are.
  const TokenFinder& plain() const { return plain_; }
  /// Finds tokens that are matched in normalized text.
  const TokenFinder& normalized() const { return normalized_; }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_set<std::string, StringHash, std::equal_to<>> special_;
  TokenFinder plain_;
  TokenFinder normalized_;
};

}  // namespace titan
