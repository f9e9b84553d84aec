#include "titan/data/tokenizer/byte_level.h"

#include "titan/data/tokenizer/unicode.h"

namespace titan::byte_level {

namespace {

bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Tables {
  std::array<char32_t, 256> chars{};
  std::array<int16_t, 0x144> bytes{};

  Tables() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      chars[byte] = is_printable(byte) ? byte : next++;
      bytes[chars[byte]] = static_cast<int16_t>(byte);
    }
  }
};

const Tables& tables() {
  static const Tables result;
  return result;
}

}  // namespace

char32_t to_char(unsigned char byte) { return tables().chars[byte]; }

std::optional<unsigned char> to_byte(char32_t value) {
  const auto& bytes = tables().bytes;
  if (value >= bytes.size() || bytes[value] < 0) return std::nullopt;
  return static_cast<unsigned char>(bytes[value]);
}

std::string encode(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) unicode::append_utf8(out, to_char(static_cast<unsigned char>(byte)));
  return out;
}

std::optional<std::string> decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto point = unicode::code_point_at(text, at);
    const auto byte = to_byte(point.value);
    if (!byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
    at += static_cast<size_t>(point.size);
  }
  return out;
}

}  // namespace titan::byte_level
