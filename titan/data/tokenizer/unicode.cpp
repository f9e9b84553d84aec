#include "titan/data/tokenizer/unicode.h"

#include <utf8proc.h>

#include "titan/base/strings.h"
#include "titan/data/tokenizer/unicode_additions.h"

namespace titan::unicode {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

CodePoint code_point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && is_continuation(static_cast<unsigned char>(text[at]))) --at;
  return code_point_at(text, at);
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  if (c < 0x10000) return put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x9 && c <= 0xD);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  if (const auto added = added_category(c); !added.empty()) return added.starts_with('N');
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  // Other_Alphabetic outside letters and marks: the circled and squared letters.
  if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
      (c >= 0x1F170 && c <= 0x1F189))
    return true;
  if (const auto added = added_category(c); !added.empty())
    return added[0] == 'L' || added[0] == 'M' || added == "Nd" || added == "Nl" || added == "Pc";
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC;
}

size_t trailing_space(std::string_view text) {
  size_t at = text.size();
  while (at > 0) {
    const CodePoint point = code_point_before(text, at);
    if (!is_white_space(point.value)) break;
    at -= static_cast<size_t>(point.size);
  }
  return at;
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (!is_white_space(point.value)) break;
    at += static_cast<size_t>(point.size);
  }
  return at;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += static_cast<size_t>(point.size);
    if (point.value == 0x130)
      out += "i\xCC\x87";  // the one code point whose lower case is two
    else
      append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point.value))));
  }
  return out;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  while (true) {
    const auto bad = find_invalid_utf8(bytes);
    if (!bad) break;
    out.append(bytes, 0, *bad).append(kReplacement);
    // The maximal part: the longest beginning of a well-formed sequence, at least one byte.
    const auto byte = [&](size_t i) {
      return *bad + i < bytes.size() ? static_cast<unsigned char>(bytes[*bad + i]) : 0u;
    };
    const unsigned lead = byte(0);
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    const size_t expected = lead >= 0xC2 && lead < 0xE0   ? 2
                            : lead >= 0xE0 && lead < 0xF0 ? 3
                            : lead >= 0xF0 && lead < 0xF5 ? 4
                                                          : 1;
    size_t size = 1;
    if (expected > 1 && byte(1) >= low && byte(1) <= high) {
      size = 2;
      while (size < expected && is_continuation(static_cast<unsigned char>(byte(size)))) ++size;
    }
    bytes.remove_prefix(*bad + size);
  }
  out.append(bytes);
  return out;
}

}  // namespace titan::unicode
