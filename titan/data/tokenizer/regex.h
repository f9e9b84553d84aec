#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace titan {

/// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin;
  size_t end;
};

/// A regular expression with the meaning it has in `tokenizers` (Oniguruma, Ruby syntax, Unicode classes),
/// compiled by PCRE2. The compiled form is safe to use from several threads.
class Regex {
 public:
  /// Throws ValueError that names `what` and the construct or position at fault.
  Regex(std::string_view pattern, std::string_view what);
  /// An expression that matches exactly `text`.
  static Regex literal(std::string_view text, std::string_view what);

  struct Code;

  /// Successive matches in one text, left to right. An empty match right after a match is passed over.
  class Matches {
   public:
    /// `text` must be UTF-8; both arguments must outlive this.
    Matches(const Regex& regex, std::string_view text);
    Matches(const Matches&) = delete;
    ~Matches();
    std::optional<ByteRange> next();

   private:
    const Code& code_;
    std::string_view text_;
    void* match_data_;
    size_t at_ = 0;
    std::optional<size_t> last_end_;
  };

 private:
  explicit Regex(std::shared_ptr<const Code> code) : fast_(code), exact_(std::move(code)) {}
  const Code& code_for(std::string_view text) const;
  /// The same expression by the system's tables and by those of Unicode 16.
  std::shared_ptr<const Code> fast_;
  std::shared_ptr<const Code> exact_;
};

/// By which tables a class like \p{L} is read: those of the system's PCRE2 (fast), or those with what Unicode
/// 15 and 16 assigned (the same on every system).
enum class CharacterTables { system, unicode_16 };

/// `pattern` of Ruby's syntax in that of PCRE2: classes whose members differ are spelled out. Throws
/// ValueError that names `what` for a construct that PCRE2 would read otherwise.
std::string to_pcre2(std::string_view pattern, std::string_view what, CharacterTables tables);

}  // namespace titan
