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

  /// Successive matches in one text, left to right. An empty match right after a match is passed over.
  class Matches {
   public:
    /// `text` must be UTF-8; both arguments must outlive this.
    Matches(const Regex& regex, std::string_view text);
    Matches(const Matches&) = delete;
    ~Matches();
    std::optional<ByteRange> next();

   private:
    const Regex& regex_;
    std::string_view text_;
    void* match_data_;
    size_t at_ = 0;
    std::optional<size_t> last_end_;
  };

 private:
  struct Code;
  Regex(std::string_view pattern, std::string_view what, unsigned options);
  std::shared_ptr<const Code> code_;
};

/// `pattern` of Ruby's syntax in that of PCRE2: classes whose members differ are spelled out. Throws
/// ValueError that names `what` for a construct that PCRE2 would read otherwise.
std::string to_pcre2(std::string_view pattern, std::string_view what);

}  // namespace titan
