#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace titan::byte_level {

/// GPT-2's printable stand-in for a byte: a code point below U+0144.
char32_t to_char(unsigned char byte);
/// The byte that `value` stands for.
std::optional<unsigned char> to_byte(char32_t value);

/// Every byte as its stand-in, in UTF-8.
std::string encode(std::string_view bytes);
/// The bytes that the stand-ins of `text` mean; nothing where a code point is no stand-in.
std::optional<std::string> decode(std::string_view text);

}  // namespace titan::byte_level
