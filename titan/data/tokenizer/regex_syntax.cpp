#include "titan/base/error.h"
#include "titan/data/tokenizer/regex.h"

namespace titan {

namespace {

// Oniguruma's \s is White_Space; PCRE2's has U+180E besides. Its \w has marks and connectors, PCRE2's not
// everywhere.
constexpr std::string_view kSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{"
    "3000}";
constexpr std::string_view kWord = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}";
constexpr std::string_view kHex = "0-9a-fA-F";

/// Rewrites one pattern; `at` walks over it.
struct Translator {
  std::string_view pattern;
  std::string_view what;
  size_t at = 0;
  std::string out = {};

  [[noreturn]] void refuse(std::string_view construct) const {
    throw ValueError("{}: the expression {} has {} at character {}, which is not supported", what, pattern,
                     construct, at);
  }
  char peek(size_t ahead = 0) const { return at + ahead < pattern.size() ? pattern[at + ahead] : '\0'; }
  void copy(size_t count) {
    out.append(pattern, at, count);
    at += count;
  }

  void members(std::string_view list, bool negated, bool in_class) {
    if (in_class && negated) refuse("a negated class inside a class");
    if (in_class) {
      out += list;
    } else {
      out.append(negated ? "[^" : "[").append(list).append("]");
    }
    at += 2;
  }

  void escape(bool in_class) {
    switch (peek(1)) {
      case 's':
      case 'S':
        return members(kSpace, peek(1) == 'S', in_class);
      case 'w':
      case 'W':
        return members(kWord, peek(1) == 'W', in_class);
      case 'h':
      case 'H':
        return members(kHex, peek(1) == 'H', in_class);
      case 'u': {
        if (at + 6 > pattern.size()) refuse("\\u without four digits");
        out.append("\\x{").append(pattern, at + 2, 4).append("}");
        at += 6;
        return;
      }
      case '\0':
        refuse("a backslash at the end");
      default:
        copy(2);
    }
  }

  void character_class() {
    copy(1);
    if (peek() == '^') copy(1);
    if (peek() == ']') copy(1);
    while (at < pattern.size() && peek() != ']') {
      if (peek() == '\\') {
        escape(true);
      } else if (peek() == '[' && peek(1) == ':') {
        const size_t end = pattern.find(":]", at);
        if (end == std::string_view::npos) refuse("an open [:");
        copy(end + 2 - at);
      } else if (peek() == '[') {
        refuse("a class inside a class");
      } else if (peek() == '&' && peek(1) == '&') {
        refuse("an intersection of classes");
      } else {
        copy(1);
      }
    }
    if (at == pattern.size()) refuse("an open [");
    copy(1);
  }

  /// Ruby's (?m) lets the dot match a newline: PCRE2's (?s).
  void group() {
    const size_t end = pattern.find_first_not_of("imx-", at + 2);
    const bool options =
        end != std::string_view::npos && end > at + 2 && (pattern[end] == ':' || pattern[end] == ')');
    if (peek(1) != '?' || !options) return copy(1);
    for (; at < end; ++at) out += pattern[at] == 'm' ? 's' : pattern[at];
  }

  void interval() {
    const size_t end = pattern.find('}', at);
    if (end == std::string_view::npos) return copy(1);
    const bool is_interval =
        pattern.substr(at + 1, end - at - 1).find_first_not_of("0123456789,") == std::string_view::npos;
    copy(end + 1 - at);
    if (is_interval && peek() == '+') refuse("{n,m}+, a repeated interval");
  }

  std::string translate() {
    while (at < pattern.size()) {
      if (peek() == '\\') {
        escape(false);
      } else if (peek() == '[') {
        character_class();
      } else if (peek() == '(') {
        group();
      } else if (peek() == '{') {
        interval();
      } else {
        copy(1);
      }
    }
    return std::move(out);
  }
};

}  // namespace

std::string to_pcre2(std::string_view pattern, std::string_view what) {
  return Translator{.pattern = pattern, .what = what}.translate();
}

}  // namespace titan
