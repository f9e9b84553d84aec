#include <iomanip>
#include <sstream>

#include "titan/base/error.h"
#include "titan/data/tokenizer/regex.h"
#include "titan/data/tokenizer/unicode_additions.h"

namespace titan {

namespace {

constexpr std::string_view kCategories =
    " C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp "
    "Zs ";

bool is_category(std::string_view name) {
  return name.size() <= 2 && kCategories.find(format(" {} ", name)) != std::string_view::npos;
}

/// A general category as members of a class: by the system's tables, or with what those may lack of it.
std::string category(std::string_view name, CharacterTables tables) {
  std::ostringstream members;
  members << "\\p{" << name << "}" << std::hex;
  if (tables == CharacterTables::system) return std::move(members).str();
  for (const auto& range : unicode::category_additions()) {
    if (!range.category.starts_with(name)) continue;
    members << "\\x{" << static_cast<uint32_t>(range.first) << "}";
    if (range.first != range.last) members << "-\\x{" << static_cast<uint32_t>(range.last) << "}";
  }
  return std::move(members).str();
}

// Oniguruma's \s is White_Space; PCRE2's has U+180E besides.
std::string space() {
  return "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
         "\\x{3000}";
}

// Oniguruma's \w has marks, connectors, circled letters and, below U+0100, numbers that are no digits.
std::string word(CharacterTables tables) {
  std::string members;
  for (const char* name : {"L", "M", "Nd", "Nl", "Pc"}) members += category(name, tables);
  return members +
         "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"
         "\\x{1f170}-\\x{1f189}";
}

/// Rewrites one pattern; `at` walks over it.
struct Translator {
  std::string_view pattern;
  std::string_view what;
  CharacterTables tables;
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
    if (in_class)
      out += list;
    else
      out.append(negated ? "[^" : "[").append(list).append("]");
  }

  /// \p{L}, \P{L}, \p{^L}, \p{Han}: PCRE2 would read the last as Script_Extensions.
  void property(bool in_class) {
    const size_t end = pattern.find('}', at);
    if (peek(2) != '{' || end == std::string_view::npos) refuse("\\p without {name}");
    std::string_view name = pattern.substr(at + 3, end - at - 3);
    bool negated = peek(1) == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    if (!is_category(name))
      out.append(negated ? "\\P{sc:" : "\\p{sc:").append(name).append("}");
    else if (in_class && negated)
      out.append("\\P{").append(name).append("}");
    else
      members(category(name, tables), negated, in_class);
    at = end + 1;
  }

  void escape(bool in_class) {
    switch (peek(1)) {
      case 's':
      case 'S':
        members(space(), peek(1) == 'S', in_class);
        break;
      case 'w':
      case 'W':
        members(word(tables), peek(1) == 'W', in_class);
        break;
      case 'd':
      case 'D':
        members(category("Nd", tables), peek(1) == 'D', in_class);
        break;
      case 'h':
      case 'H':
        members("0-9a-fA-F", peek(1) == 'H', in_class);
        break;
      case 'p':
      case 'P':
        return property(in_class);
      case 'u':
        if (at + 6 > pattern.size()) refuse("\\u without four digits");
        out.append("\\x{").append(pattern, at + 2, 4).append("}");
        at += 4;
        break;
      case '\0':
        refuse("a backslash at the end");
      default:
        return copy(2);
    }
    at += 2;
  }

  void character_class() {
    copy(1);
    if (peek() == '^') copy(1);
    if (peek() == ']') copy(1);
    while (at < pattern.size() && peek() != ']') {
      if (peek() == '\\') {
        escape(true);
      } else if (peek() == '[' && peek(1) == ':') {
        refuse("a POSIX class");
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

  /// {n,m} is possessive before a + to PCRE2 and repeated to Ruby.
  void interval() {
    const size_t end = pattern.find('}', at);
    if (end == std::string_view::npos) return copy(1);
    const bool is_interval =
        pattern.substr(at + 1, end - at - 1).find_first_not_of("0123456789,") == std::string_view::npos;
    copy(end + 1 - at);
    if (is_interval && peek() == '+') refuse("a + after {n,m}");
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

std::string to_pcre2(std::string_view pattern, std::string_view what, CharacterTables tables) {
  return Translator{.pattern = pattern, .what = what, .tables = tables}.translate();
}

}  // namespace titan
