#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "titan/data/tokenizer/component.h"
#include "titan/data/tokenizer/merge_table.h"
#include "titan/data/tokenizer/vocabulary.h"
#include "titan/data/tokenizer/word_cache.h"

namespace titan {

/// The "model" of a tokenizer.json of type BPE: the vocabulary, and the merges that turn a word into ids.
class Bpe {
 public:
  /// With `words_are_bytes` a word's bytes stand for ByteLevel's code points. Throws ValueError that names
  /// what is missing or not supported, for instance a merge of a token that the vocabulary lacks.
  Bpe(const Component& component, bool words_are_bytes);

  /// Appends the ids of one word to `ids`. What the vocabulary has neither as a token, as bytes nor as an
  /// unknown token gives no id, as in `tokenizers`.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  void read_vocabulary(const Component& component);
  void read_merges(const Component& component);
  void read_bytes();
  std::vector<int32_t> symbols_of(std::string_view word) const;
  bool append_bytes(std::string_view word, std::vector<int32_t>& symbols) const;
  std::vector<int32_t> symbols_of_characters(std::string_view word) const;
  bool append_fallback(std::string_view symbol, std::vector<int32_t>& symbols) const;
  int32_t unknown_id() const;

  std::string where_;
  Vocabulary vocabulary_;
  MergeTable merges_;
  std::string prefix_;
  std::string suffix_;
  std::optional<std::string> unknown_;
  bool fuse_unknown_;
  bool byte_fallback_;
  bool ignore_merges_;
  bool words_are_bytes_;
  /// Ids of the stand-ins of the 256 bytes; -1 where the vocabulary has none.
  std::array<int32_t, 256> stand_ins_{};
  /// Ids of <0x00> to <0xFF>, for the byte fallback.
  std::array<int32_t, 256> fallbacks_{};
  mutable WordCache cache_;
};

}  // namespace titan
