#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "titan/base/error.h"
#include "titan/data/tokenizer/unicode.h"

namespace titan::unicode {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// [Note: Inert code points]
// `tokenizers` normalizes by the data of Unicode 9, so code points that came later are starters without
// decomposition to it. Here are those for which later data says otherwise; they stay as they are and the text
// on either side is normalized by itself. U+11A7 is none of them: it never changes either, but utf8proc 2.8
// takes it for a Hangul final and drops it.
constexpr auto kInert = std::to_array<Range>(
    {{0x558, 0x558},     {0x58B, 0x58C},     {0x5C8, 0x5C9},     {0x7FD, 0x7FD},     {0x897, 0x89F},
     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},
     {0x11A7, 0x11A7},   {0x1715, 0x1715},   {0x1ABF, 0x1AF0},   {0x1DF6, 0x1DFA},   {0x209D, 0x209F},
     {0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x105C9, 0x105C9},
     {0x105E4, 0x105E4}, {0x10781, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BF}, {0x10D24, 0x10D27},
     {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10ECB, 0x10ECF}, {0x10EF0, 0x10EFB}, {0x10EFD, 0x10EFF},
     {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11383, 0x11383},
     {0x11385, 0x11385}, {0x1138E, 0x1138E}, {0x11391, 0x11391}, {0x113B8, 0x113B8}, {0x113BB, 0x113BB},
     {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113C9}, {0x113CE, 0x113D0}, {0x1145E, 0x1145E},
     {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
     {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
     {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x1611E, 0x16129}, {0x1612F, 0x1612F},
     {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1B123, 0x1B126}, {0x1CCD6, 0x1CCF9}, {0x1D127, 0x1D128},
     {0x1D250, 0x1D252}, {0x1D25B, 0x1D25C}, {0x1D25F, 0x1D25F}, {0x1D280, 0x1D281}, {0x1D6A6, 0x1D6A6},
     {0x1DF95, 0x1DF95}, {0x1DFCD, 0x1DFFF}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
     {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3},
     {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}});

bool is_inert(char32_t c) {
  const auto* after =
      std::upper_bound(kInert.begin(), kInert.end(), c,
                       [](char32_t value, const Range& range) { return value < range.first; });
  return after != kInert.begin() && c <= std::prev(after)->last;
}

// [Note: Safe starters]
// A code point is a safe starter here if it is a starter (combining class 0), composes with nothing before it
// and stays as it is under NFC. Normalization cannot cross the border before a safe starter, so a text of
// them alone is already NFC, and only the stretches around other code points need work. The list holds what
// most text is made of; leaving a code point out costs time only.
bool is_safe_starter(char32_t c) {
  if (c < 0x300) return true;
  if (c >= 0x4E00 && c <= 0x9FFF) return true;                        // CJK ideographs
  if (c >= 0xAC00 && c <= 0xD7A3) return true;                        // Hangul syllables
  if (c >= 0x3041 && c <= 0x30FF) return c != 0x3099 && c != 0x309A;  // kana
  if (c >= 0x3001 && c <= 0x3029) return true;                        // CJK punctuation
  if (c >= 0x400 && c <= 0x482) return true;                          // Cyrillic
  if (c >= 0x2010 && c <= 0x205E) return true;                        // punctuation
  if (c >= 0x2190 && c <= 0x2328) return true;                        // arrows, operators
  if (c >= 0x2500 && c <= 0x27FF) return true;                        // boxes, dingbats
  return (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0xFF01 && c <= 0xFF9D) || (c >= 0x3400 && c <= 0x4DBF);
}

std::string map_whole(std::string_view text, int options) {
  if (text.empty()) return {};
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &result,
                                             static_cast<utf8proc_option_t>(options));
  if (size < 0) throw ValueError("Unicode normalization failed: {}", utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  return {reinterpret_cast<const char*>(result), static_cast<size_t>(size)};
}

// See [Note: Safe starters].
std::string to_nfc(std::string_view text) {
  std::string out;
  size_t copied = 0;        // text[0, copied) is in `out`
  size_t last_starter = 0;  // offset of the last safe starter seen, or 0
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0xCC) {  // below U+0300
      last_starter = at;
      at += static_cast<unsigned char>(text[at]) < 0x80 ? 1 : 2;
      continue;
    }
    const CodePoint point = code_point_at(text, at);
    if (is_safe_starter(point.value)) {
      last_starter = at;
      at += static_cast<size_t>(point.size);
      continue;
    }
    size_t end = at + static_cast<size_t>(point.size);
    while (end < text.size()) {
      const CodePoint next = code_point_at(text, end);
      if (is_safe_starter(next.value)) break;
      end += static_cast<size_t>(next.size);
    }
    out.append(text, copied, last_starter - copied);
    out += map_whole(text.substr(last_starter, end - last_starter), UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    copied = last_starter = at = end;
  }
  out.append(text, copied);
  return out;
}

bool is_ascii(std::string_view text) {
  unsigned char seen = 0;
  for (const char c : text) seen |= static_cast<unsigned char>(c);
  return seen < 0x80;
}

std::string normalize_stretch(std::string_view text, Form form) {
  switch (form) {
    case Form::nfc:
      return to_nfc(text);
    case Form::nfd:
      return map_whole(text, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case Form::nfkc:
      return map_whole(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case Form::nfkd:
      return map_whole(text, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  }
  return std::string(text);
}

}  // namespace

std::string normalize(std::string_view text, Form form) {
  if (is_ascii(text)) return std::string(text);
  std::string out;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const size_t end = at + static_cast<size_t>(point.size);
    if (point.value >= kInert[0].first && is_inert(point.value)) {
      out += normalize_stretch(text.substr(done, at - done), form);
      out.append(text, at, end - at);
      done = end;
    }
    at = end;
  }
  if (done == 0) return normalize_stretch(text, form);
  return out += normalize_stretch(text.substr(done), form);
}

}  // namespace titan::unicode
