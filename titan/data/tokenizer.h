#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

struct EncodeOptions {
  /// Apply the post-processor's template (Llama-3's begin-of-text, for instance).
  bool add_special_tokens = true;
  /// Put the bos id first, unless the template already does or the tokenizer has none.
  bool add_bos = false;
  /// Put the eos id last, unless the template already does or the tokenizer has none.
  bool add_eos = false;
};

struct DecodeOptions {
  /// Leave out tokens marked as special.
  bool skip_special_tokens = false;
  /// Leave out ids that no token has (a model's padded vocabulary) instead of throwing.
  bool skip_unknown_ids = false;
};

/// A byte-pair-encoding tokenizer as Hugging Face's `tokenizer.json` describes it; ids and texts equal those
/// of the `tokenizers` library. Const member functions are safe from several threads.
class Tokenizer {
 public:
  /// Reads `assets`/tokenizer.json (or the file itself) and, for bos and eos, tokenizer_config.json,
  /// special_tokens_map.json, generation_config.json and config.json beside it. Throws ValueError that names
  /// the file and the component that is missing, wrong or not supported.
  static Tokenizer load(const std::filesystem::path& assets);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Throws ValueError with the byte offset where `text` is not UTF-8.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// Bytes that do not form UTF-8 become U+FFFD, as in `tokenizers`. Throws ValueError for an id that no
  /// token has.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  /// The largest id plus one, added tokens included.
  int64_t vocab_size() const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> token_to_id(std::string_view token) const;
  /// The file that was read.
  const std::filesystem::path& path() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace titan
