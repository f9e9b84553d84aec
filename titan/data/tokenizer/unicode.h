#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace titan::unicode {

/// One code point of a UTF-8 text and the bytes it takes.
struct CodePoint {
  char32_t value;
  int size;
};

/// The code point at `text[at]`. The text must be UTF-8.
CodePoint code_point_at(std::string_view text, size_t at);
/// The code point that ends before `text[end]`. The text must be UTF-8 and `end` > 0.
CodePoint code_point_before(std::string_view text, size_t end);
void append_utf8(std::string& out, char32_t value);

/// Unicode's White_Space property.
bool is_white_space(char32_t value);
/// General category Nd, Nl or No.
bool is_numeric(char32_t value);
/// \w of the Rust regex crate: Alphabetic, marks, decimal digits, connector punctuation, join controls.
bool is_word(char32_t value);

/// Offset of the first white space of the run that ends `text`; its size where there is none.
size_t trailing_space(std::string_view text);
/// Bytes of the white space that begins `text`.
size_t leading_space(std::string_view text);

enum class Form { nfc, nfd, nfkc, nfkd };
/// The normalization form of a UTF-8 text (UAX #15).
std::string normalize(std::string_view text, Form form);
/// Each code point's full lower-case mapping, without regard to its neighbours.
std::string lowercase(std::string_view text);

/// Each maximal ill-formed part becomes U+FFFD, as Unicode recommends and Rust and Python do.
std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace titan::unicode
